"""The body of a Metadata request, versions 0 to 13, read by hand (MetadataRequest.json).

    array of topics; null: all topics
        uuid id (v10; zero: none), string name (may be null from v10 on)
    bool allow auto topic creation (v4), include cluster operations (v8 to v10), include topic
    operations (v8)

Clients ask every few minutes, and after every error, for all topics that they use: these may be
thousands. Nearly all clients name them, so named topics are read without a call for each field.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from sparklog.wire.protocol.reading import Reader
from sparklog.wire.protocol.topic_ids import NO_TOPIC_ID

_ID_SINCE: Final = 10
"""The first version that may name topics by their ids (KIP-516)."""
_CREATION_SINCE: Final = 4
_OPERATIONS_SINCE: Final = 8
_CLUSTER_UNTIL: Final = 10

_ONE_BYTE_MAX: Final = 0x7F
"""The largest varint of one byte."""


class MetadataAsked(NamedTuple):
    """A request. `topics`: each is asked by name or by id, and comes once; None for all topics.

    A topic with neither name nor id has the id NO_TOPIC_ID, which no topic has.
    """

    topics: Sequence[str | bytes] | None
    may_create: bool = True
    has_cluster_operations: bool = False
    has_topic_operations: bool = False


def read_metadata_request(reader: Reader, version: int) -> MetadataAsked:
    """Return a request. Raises InvalidRequestError.

    No topics are all topics in version 0. Each topic comes once, as in Kafka: a short request must
    not have an answer without bound.
    """
    count = reader.array_or_null(_least_bytes(version))
    topics = None if count is None else tuple(dict.fromkeys(_topics(reader, version, count)))
    may_create = reader.boolean() if version >= _CREATION_SINCE else True
    has_cluster = reader.boolean() if _OPERATIONS_SINCE <= version <= _CLUSTER_UNTIL else False
    has_topic = reader.boolean() if version >= _OPERATIONS_SINCE else False
    reader.tags()
    is_all = version == 0 and not topics
    return MetadataAsked(None if is_all else topics, may_create, has_cluster, has_topic)


def _least_bytes(version: int) -> int:
    """Return the fewest bytes of a topic: its id, the size of its name, and its tagged fields."""
    return len(NO_TOPIC_ID) + 2 if version >= _ID_SINCE else 2


def _topics(reader: Reader, version: int, count: int) -> list[str | bytes]:
    if version < _ID_SINCE:
        return [_named(reader) for _ in range(count)]
    found, reader.at = _plain_topics(bytes(reader.data), reader.at, count)
    found += [_topic(reader) for _ in range(count - len(found))]
    return found


def _named(reader: Reader) -> str:
    name = reader.string()
    reader.tags()
    return name


def _topic(reader: Reader) -> str | bytes:
    """Return the next topic; its id if it has one.

    Kafka's Java client sends an empty name with an id (KafkaApis looks at the id alone).
    """
    topic_id = reader.uuid()
    name = reader.string_or_null()
    reader.tags()
    return topic_id if name is None or topic_id != NO_TOPIC_ID else name


def _plain_topics(data: bytes, at: int, most: int) -> tuple[list[str | bytes], int]:
    """Return the names of the topics at a position, and the position behind them.

    It stops before a topic that has an id, tagged fields, or a name of more than 126 bytes, and
    before one that is malformed. The data are a copy: indexing bytes is faster than a view.
    """
    found: list[str | bytes] = []
    with suppress(IndexError, UnicodeDecodeError):
        while len(found) < most:
            size_at = at + len(NO_TOPIC_ID)
            size = data[size_at]
            end = size_at + size
            if not 0 < size <= _ONE_BYTE_MAX or data[end] or data[at:size_at] != NO_TOPIC_ID:
                break
            found.append(data[size_at + 1 : end].decode())
            at = end + 1
    return found, at
