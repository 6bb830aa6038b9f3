"""Records of __consumer_offsets and __transaction_state: a coordinator's state, by key.

    key      int16 type | fields, not flexible
    value    int16 version | fields

Types 0 and 1 are offset commits, 2 a group of the classic protocol, 3 and 5 to 8 a group of the
consumer protocol (KIP-848). A null value deletes the key. In __transaction_state type 0 is a
transaction. See the schemas of GroupCoordinatorRecordSerde and TransactionLog.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from sparklog.coordinator.messages import MessageReader, Schema, Tagged, read_message, write_message
from sparklog.errors import CorruptRecordError, UnknownRecordTypeError

OFFSETS_TOPIC: Final = "__consumer_offsets"
COMMIT_TYPES: Final = (0, 1)
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
CONSUMER_EPOCH: Final = 3
CONSUMER_MEMBER: Final = 5
CONSUMER_TARGET: Final = 6
CONSUMER_TARGET_MEMBER: Final = 7
CONSUMER_CURRENT: Final = 8


class Kind(NamedTuple):
    """The schemas of one type: the key's, and the value's by version."""

    key: Schema
    values: dict[int, Schema]
    flexible_from: int


def _without(schema: Schema, *names: str) -> Schema:
    return tuple(field for field in schema if field[0] not in names)


_GROUP_TOPIC: Final[Schema] = (("group", "string"), ("topic", "string"), ("partition", "int32"))
_OFFSET: Final[Schema] = (
    ("offset", "int64"),
    ("leaderEpoch", "int32"),
    ("metadata", "string"),
    ("commitTimestamp", "int64"),
)
_OFFSET_0: Final = _without(_OFFSET, "leaderEpoch")
_OFFSETS: Final[dict[int, Schema]] = {
    0: _OFFSET_0,
    1: (*_OFFSET_0, ("expireTimestamp", "int64")),
    2: _OFFSET_0,
    3: _OFFSET,
    4: (*_OFFSET, ("topicId", Tagged(0, "uuid"))),
}

_MEMBER: Final[Schema] = (
    ("memberId", "string"),
    ("groupInstanceId", "string"),
    ("clientId", "string"),
    ("clientHost", "string"),
    ("rebalanceTimeout", "int32"),
    ("sessionTimeout", "int32"),
    ("subscription", "bytes"),
    ("assignment", "bytes"),
)


def _group(version: int) -> Schema:
    member = _MEMBER
    if version < 3:
        member = _without(member, "groupInstanceId")
    if version < 1:
        member = _without(member, "rebalanceTimeout")
    fields: Schema = (
        ("protocolType", "string"),
        ("generation", "int32"),
        ("protocol", "string"),
        ("leader", "string"),
        ("currentStateTimestamp", "int64"),
        ("members", [member]),
    )
    return fields if version >= 2 else _without(fields, "currentStateTimestamp")


_GROUP_ID: Final[Schema] = (("groupId", "string"),)
_GROUP_MEMBER: Final[Schema] = (*_GROUP_ID, ("memberId", "string"))
_TOPIC_PARTITIONS: Final[Schema] = (("topicId", "uuid"), ("partitions", ["int32"]))
_CLASSIC_METADATA: Final[Schema] = (
    ("sessionTimeoutMs", "int32"),
    ("supportedProtocols", [(("name", "string"), ("metadata", "bytes"))]),
)
_CONSUMER_MEMBER: Final[Schema] = (
    ("instanceId", "string"),
    ("rackId", "string"),
    ("clientId", "string"),
    ("clientHost", "string"),
    ("subscribedTopicNames", ["string"]),
    ("subscribedTopicRegex", "string"),
    ("rebalanceTimeoutMs", "int32"),
    ("serverAssignor", "string"),
    ("classicMemberMetadata", Tagged(0, _CLASSIC_METADATA, nullable=True)),
)
_CURRENT: Final[Schema] = (
    ("memberEpoch", "int32"),
    ("previousMemberEpoch", "int32"),
    ("state", "int8"),
    ("assignedPartitions", [_TOPIC_PARTITIONS]),
    ("partitionsPendingRevocation", [_TOPIC_PARTITIONS]),
)
GROUP_RECORDS: Final = {
    0: Kind(_GROUP_TOPIC, _OFFSETS, 4),
    1: Kind(_GROUP_TOPIC, _OFFSETS, 4),
    2: Kind((("group", "string"),), {version: _group(version) for version in range(5)}, 4),
    3: Kind(_GROUP_ID, {0: (("epoch", "int32"), ("metadataHash", Tagged(0, "int64")))}, 0),
    5: Kind(_GROUP_MEMBER, {0: _CONSUMER_MEMBER}, 0),
    6: Kind(_GROUP_ID, {0: (("assignmentEpoch", "int32"),)}, 0),
    7: Kind(_GROUP_MEMBER, {0: (("topicPartitions", [_TOPIC_PARTITIONS]),)}, 0),
    8: Kind(_GROUP_MEMBER, {0: _CURRENT}, 0),
}

_TRANSACTION: Final[Schema] = (
    ("producerId", "int64"),
    ("producerEpoch", "int16"),
    ("transactionTimeoutMs", "int32"),
    ("transactionStatus", "int8"),
    ("transactionPartitions", [(("topic", "string"), ("partitionIds", ["int32"]))]),
    ("transactionLastUpdateTimestampMs", "int64"),
    ("transactionStartTimestampMs", "int64"),
)
_TRANSACTION_TAGS: Final[Schema] = (
    ("previousProducerId", Tagged(0, "int64")),
    ("nextProducerId", Tagged(1, "int64")),
    ("clientTransactionVersion", Tagged(2, "int16")),
)
TRANSACTION_RECORDS: Final = {
    0: Kind(
        (("transactionalId", "string"),),
        {0: _TRANSACTION, 1: (*_TRANSACTION, *_TRANSACTION_TAGS)},
        1,
    ),
}


class CoordinatorRecord(NamedTuple):
    """A key and a value as fields by name; a `value` of None deletes the key."""

    type: int
    key: dict[str, Any]
    version: int
    value: dict[str, Any] | None


def read_record(
    kinds: dict[int, Kind], key: bytes | None, value: bytes | None
) -> CoordinatorRecord:
    """Return a coordinator's record; `kinds` is GROUP_RECORDS or TRANSACTION_RECORDS.

    Raises UnknownRecordTypeError, and CorruptRecordError for bytes that do not fit the schema.
    """
    number = MessageReader(key or b"", flexible=False).value("int16")
    if number not in kinds:
        raise UnknownRecordTypeError(f"Unknown record type {number}")
    kind = kinds[number]
    fields = _read((key or b"")[2:], kind.key, number, "key")
    if value is None:
        return CoordinatorRecord(number, fields, -1, None)
    version = MessageReader(value, flexible=False).value("int16")
    if version not in kind.values:
        raise CorruptRecordError(f"Unknown version {version} of a value of type {number}")
    flexible = version >= kind.flexible_from
    found = _read(value[2:], kind.values[version], version, "value", flexible=flexible)
    return CoordinatorRecord(number, fields, version, found)


def _read(
    data: bytes, schema: Schema, version: int, part: str, *, flexible: bool = False
) -> dict[str, Any]:
    try:
        found = read_message(data, schema, flexible=flexible)
        if part == "key":
            _check_not_null(found)
        return found
    except CorruptRecordError as error:
        raise CorruptRecordError(
            f"Could not read record with version {version} from {part}'s buffer due to: "
            f"{error.args[0]}."
        ) from None


def _check_not_null(key: dict[str, Any]) -> None:
    """Raise CorruptRecordError for a null in a key: no field of a key is nullable."""
    for name, value in key.items():
        if value is None:
            raise CorruptRecordError(f"non-nullable field {name} was serialized as null")


def type_of(key: bytes) -> int:
    """Return the type of the record of a key."""
    return int.from_bytes(key[:2], "big")


def is_offset(key: bytes) -> bool:
    """Whether the record of a key is a committed offset."""
    return type_of(key) in COMMIT_TYPES


class Record(NamedTuple):
    """A record of a coordinator as bytes; a `value` of None deletes the key."""

    key: bytes
    value: bytes | None


made_record: Final[Callable[[tuple[bytes, bytes | None]], Record]] = partial(tuple.__new__, Record)
"""Makes a Record from a tuple of its fields, in half the time of the constructor."""


def write_record(
    number: int, key: Mapping[str, Any], version: int = 0, value: Mapping[str, Any] | None = None
) -> Record:
    """Return a record of __consumer_offsets. Keys are never flexible."""
    kind = GROUP_RECORDS[number]
    head = number.to_bytes(2, "big") + write_message(key, kind.key)
    if value is None:
        return Record(head, None)
    body = write_message(value, kind.values[version], flexible=version >= kind.flexible_from)
    return Record(head, version.to_bytes(2, "big") + body)
