"""Records of __consumer_offsets and __transaction_state: coordinators' state as keys and values.

    key      int16 type | the key's fields, not flexible          value   int16 version | fields

Types 0 and 1 are offset commits, 2 a group of the classic protocol, 3 and 5 to 8 a group of the
consumer protocol (KIP-848). A null value deletes the key. In __transaction_state type 0 is a
transaction. See the schemas of GroupCoordinatorRecordSerde and TransactionLog.
"""

from typing import Any, Final, NamedTuple

from sparklog.errors import CorruptRecordError, UnknownRecordTypeError
from sparklog.interop.dump_batches import Decoded
from sparklog.interop.java_records import JavaRecord
from sparklog.interop.messages import MessageReader, Schema, Tagged, json_text, read_message

COMMIT_TYPES: Final = (0, 1)
_PROTOCOL_TYPE: Final = "consumer"


class _Kind(NamedTuple):
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
    0: _Kind(_GROUP_TOPIC, _OFFSETS, 4),
    1: _Kind(_GROUP_TOPIC, _OFFSETS, 4),
    2: _Kind((("group", "string"),), {version: _group(version) for version in range(5)}, 4),
    3: _Kind(_GROUP_ID, {0: (("epoch", "int32"), ("metadataHash", Tagged(0, "int64")))}, 0),
    5: _Kind(_GROUP_MEMBER, {0: _CONSUMER_MEMBER}, 0),
    6: _Kind(_GROUP_ID, {0: (("assignmentEpoch", "int32"),)}, 0),
    7: _Kind(_GROUP_MEMBER, {0: (("topicPartitions", [_TOPIC_PARTITIONS]),)}, 0),
    8: _Kind(_GROUP_MEMBER, {0: _CURRENT}, 0),
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
    0: _Kind(
        (("transactionalId", "string"),),
        {0: _TRANSACTION, 1: (*_TRANSACTION, *_TRANSACTION_TAGS)},
        1,
    ),
}

_SUBSCRIPTION: Final[Schema] = (
    ("topics", ["string"]),
    ("userData", "bytes"),
    ("ownedPartitions", [(("topic", "string"), ("partitions", ["int32"]))]),
    ("generationId", "int32"),
    ("rackId", "string"),
)
_ASSIGNMENT: Final[Schema] = (
    ("assignedPartitions", [(("topic", "string"), ("partitions", ["int32"]))]),
    ("userData", "bytes"),
)


class CoordinatorRecord(NamedTuple):
    """A key and a value as fields by name; a `value` of None deletes the key."""

    type: int
    key: dict[str, Any]
    version: int
    value: dict[str, Any] | None


def read_record(
    kinds: dict[int, _Kind], key: bytes | None, value: bytes | None
) -> CoordinatorRecord:
    """The fields of a coordinator's record; `kinds` is GROUP_RECORDS or TRANSACTION_RECORDS.

    Raises UnknownRecordTypeError, and CorruptRecordError for bytes that cannot be such a record.
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
    """Refuse a key with a null in it: no field of a key is nullable."""
    for name, value in key.items():
        if value is None:
            raise CorruptRecordError(f"non-nullable field {name} was serialized as null")


def decode_offsets(record: JavaRecord) -> Decoded:
    """What `--offsets-decoder` prints of a record of __consumer_offsets."""
    return _decoded(GROUP_RECORDS, record)


def decode_transactions(record: JavaRecord) -> Decoded:
    """What `--transaction-log-decoder` prints of a record of __transaction_state."""
    return _decoded(TRANSACTION_RECORDS, record)


def _decoded(kinds: dict[int, _Kind], record: JavaRecord) -> Decoded:
    offset = record.offset
    if record.key is None:
        raise CorruptRecordError(
            f"Failed to decode message at offset {offset} using offset topic decoder (message had "
            f"a missing key)"
        )
    try:
        found = read_record(kinds, record.key, record.value)
    except UnknownRecordTypeError as error:
        return f"{error.args[0]} at offset {offset}, skipping.".encode(), None
    except CorruptRecordError as error:
        return f"Error at offset {offset}, skipping. {error.args[0]}".encode(), None
    key = json_text({"type": str(found.type), "data": found.key})
    if found.value is None:
        return key.encode(), b"<DELETE>"
    data = _opened(found.value)
    return key.encode(), json_text({"version": str(found.version), "data": data}).encode()


def _opened(value: dict[str, Any]) -> dict[str, Any]:
    """A group's value with what its members' protocol says in place of its bytes."""
    if value.get("protocolType") == _PROTOCOL_TYPE:
        for member in value["members"] or ():
            member["subscription"] = _embedded(member["subscription"], _subscription)
            member["assignment"] = _embedded(member["assignment"], lambda _: _ASSIGNMENT)
    return value


def _subscription(version: int) -> Schema:
    fields: int = (2, 3, 4, 5)[max(0, min(version, 3))]
    return _SUBSCRIPTION[:fields]


def _embedded(data: bytes | None, schema_of: Any) -> Any:
    """The fields of a message behind its version, or the bytes where they are none."""
    try:
        reader = MessageReader(data or b"", flexible=False)
        return reader.struct(schema_of(reader.value("int16")))
    except CorruptRecordError:
        return data
