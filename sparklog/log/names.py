"""Names of topics, directories and files.

    <topic, at most 200 characters>-<topic id>/        topic directory
      quarantine/                                      damaged files that were put aside
      <topic>-<partition>/                             partition directory (LocalLog.logDirName)
        <base offset, 20 digits>.<uuid>.log            record batches
        <base offset, 20 digits>.<uuid>.index          offset index
        <base offset, 20 digits>.<uuid>.timeindex      time index
        <base offset, 20 digits>.<uuid>.keyindex       keys of a compacted segment
        <base offset, 20 digits>.log                   Kafka's own form: imports, exports

    __shared/                                          beside the topics, in the log dir
      <uuid>.log                                       a shared segment: batches of many partitions

    base offset   the file's own first offset, decimal, zero-padded: 0 .. 2^63 - 1
    uuid          version 7 (RFC 9562), lower case: no name is used twice, and each has a time
    topic id      16 bytes as base64url, unpadded: 22 characters, the first never '-' (Uuid.java)

The parsers return None for every other name: such a file is not one of sparklog's.
"""

import re
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple
from uuid import UUID

from sparklog.errors import InvalidTopicError, UsageError

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
KEY_INDEX_SUFFIX: Final = ".keyindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""The topics that a broker writes for itself (Topic.INTERNAL_TOPICS)."""
CLUSTER_METADATA: Final = "__cluster_metadata"
"""The directory of the metadata log, and its topic at a broker."""
RESERVED_TOPICS: Final = INTERNAL_TOPICS | {CLUSTER_METADATA}
"""Names that no user may give a topic: INTERNAL_TOPICS, and KRaft's own log."""

QUARANTINE: Final = "quarantine"
GATEWAYS: Final = "__gateways"
"""The directory of the signs of life of gateways."""
SHARED: Final = "__shared"

TOPIC_NAME_CHARACTERS_MAX: Final = 249
TOPIC_DIR_NAME_CHARACTERS_MAX: Final = 200
OFFSET_MAX: Final = 2**63 - 1
PARTITIONS_MAX: Final = 100_000
"""The most partitions of a topic: each one costs time whenever the topic is listed or opened. An
import takes the count from the largest number in the name of a directory, which may be wrong."""
UUID7_MS_MAX: Final = 2**48 - 1
UUID7_PATTERN: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_DIR = re.compile(r"[a-zA-Z0-9._-]{1,200}-([a-zA-Z0-9_][a-zA-Z0-9_-]{21})")
_SEGMENT = re.compile(
    rf"([0-9]{{20}})(?:\.({UUID7_PATTERN}))?(\.log|\.index|\.timeindex|\.keyindex)"
)

_BORN = re.compile(
    rf"(?:{SHARED}/|part-|(?:[^/]+/)*(?:[0-9]{{20}}[.-]){{1,2}})({UUID7_PATTERN})"
    r"\.(?:log|index|timeindex|keyindex|parquet|json)"
)


class SegmentName(NamedTuple):
    """The parts of a segment file's name: `uuid` is None in Kafka's form, `suffix` has its dot."""

    base_offset: int
    uuid: str | None
    suffix: str


def check_not_internal(topic: str) -> None:
    """Refuse a write of a client to an internal topic (ReplicaManager.appendRecordsToLeader).

    Raises InvalidTopicError.
    """
    if topic in INTERNAL_TOPICS:
        raise InvalidTopicError(f"topic {topic!r} is internal: only coordinators write to it")


def segment_name(base_offset: int, uuid: str | None, suffix: str) -> str:
    """Return the name of a segment's file; with `uuid` None the name that Kafka's tools expect.

    `suffix` is LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX (LogFileUtils) or KEY_INDEX_SUFFIX.
    """
    middle = "" if uuid is None else f".{uuid}"
    return f"{base_offset:020d}{middle}{suffix}"


def parse_segment_name(name: str) -> SegmentName | None:
    """Return the parts of a segment file's name; None if `name` is no such name.

    `name` is the last part of a path. A name with another suffix (`.deleted`, `.swap`), with other
    digits or with an offset above 2^63 - 1 is None.
    """
    match = _SEGMENT.fullmatch(name)
    if match is None or int(match[1]) > OFFSET_MAX:
        return None
    return SegmentName(int(match[1]), match[2], match[3])


def partition_dir(topic: str, partition: int) -> str:
    """Return the partition directory's name; Kafka prints a TopicPartition in the same form."""
    return f"{topic}-{partition}"


def topic_dir(topic: str, topic_id: str) -> str:
    """Return the topic directory's name: the topic, cut to 200 characters, and its id."""
    return f"{topic[:TOPIC_DIR_NAME_CHARACTERS_MAX]}-{topic_id}"


def topic_id_of(directory: str) -> str | None:
    """Return the topic id in a topic directory's name; None if `directory` is no such name."""
    match = _TOPIC_DIR.fullmatch(directory)
    return match and match[1]


def random_uuid(random_bytes: bytes) -> str:
    """Return an id of a topic or a cluster: 22 characters, from 16 random bytes (Uuid.randomUuid).

    The bytes become a version 4 UUID, so the two ids that Kafka reserves are impossible. If the id
    would begin with '-', its first bit is cleared: tools would take such an id for an option.
    Raises UsageError for another number of bytes.
    """
    if len(random_bytes) != 16:
        raise UsageError(f"an id is made of 16 random bytes, not {len(random_bytes)}")
    raw = bytearray(UUID(bytes=random_bytes, version=4).bytes)
    if raw[0] >> 2 == 0b111110:
        raw[0] &= 0x7F
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def uuid7(now_ms: int, random_bytes: bytes) -> str:
    """Return a version 7 UUID of `now_ms` and the first 10 of `random_bytes` (RFC 9562, 5.7).

    Layout: 48 bits time in ms, 4 bits version, 12 random bits, 2 bits variant, 62 random bits.
    Names of the same millisecond have no order. Raises UsageError for a time that does not fit 48
    bits, and for too few bytes.
    """
    if not 0 <= now_ms <= UUID7_MS_MAX:
        raise UsageError(f"a version 7 uuid holds times from 0 to {UUID7_MS_MAX} ms, not {now_ms}")
    if len(random_bytes) < 10:
        raise UsageError(f"a version 7 uuid takes 10 random bytes, not {len(random_bytes)}")
    value = now_ms << 80 | int.from_bytes(random_bytes[:10], "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid7_ms(uuid: str) -> int:
    """Return the time, in ms, of a version 7 UUID from `parse_segment_name`."""
    return int(uuid[:8] + uuid[9:13], 16)


def born_ms(path: str) -> int | None:
    """Return when a file was made, in ms, by the uuid in its name; None for a name of another form.

    `path` may be that of a segment's file (also with directories), of a shared segment in the log
    dir, of a table's file in the table, and of a run or of edits.
    """
    match = _BORN.fullmatch(path)
    return None if match is None else uuid7_ms(match[1])


def topic_name_problem(name: str) -> str | None:
    """Return why `name` is illegal, as the text behind "topic name"; None if it is legal."""
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return f"{name!r} means a directory"
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        return f"{name[:20]!r}… has {len(name)} characters"
    if _TOPIC_NAME.fullmatch(name) is None:
        return f"{name!r} holds other characters"
    return None


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicError unless Kafka would accept `name` for a topic (Topic.validate)."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise InvalidTopicError(
            f"topic name {problem}: allowed are 1 to {TOPIC_NAME_CHARACTERS_MAX} of the characters"
            " a-z A-Z 0-9 '.' '_' '-', but not '.' or '..' alone"
        )


def metric_name(topic: str) -> str:
    """Return a topic's name as metric systems write it, with '_' for '.'.

    Two topics with one metric name collide: Kafka refuses to create the second
    (Topic.hasCollision).
    """
    return topic.replace(".", "_")
