"""Records of __consumer_offsets and __transaction_state as Kafka's dump tool prints them."""

from typing import Any, Final

from sparklog.coordinator.classic.consumer_protocol import ASSIGNMENT, CONSUMER, SUBSCRIPTION
from sparklog.coordinator.messages import MessageReader, Schema, json_text
from sparklog.coordinator.records import GROUP_RECORDS, TRANSACTION_RECORDS, Kind, read_record
from sparklog.errors import CorruptRecordError, UnknownRecordTypeError
from sparklog.interop.broker_files.java_records import JavaRecord
from sparklog.interop.dumps.dump_batches import Decoded

_PARTITION: Final[Schema] = (("partition", "int32"), ("racks", ["string"]))
_TOPIC: Final[Schema] = (
    ("topicId", "uuid"),
    ("topicName", "string"),
    ("numPartitions", "int32"),
    ("partitionMetadata", [_PARTITION]),
)
_EXPRESSION: Final[Schema] = (("groupId", "string"), ("regularExpression", "string"))
_RESOLVED: Final[Schema] = (("topics", ["string"]), ("version", "int64"), ("timestamp", "int64"))
_PRINTED: Final = {
    **GROUP_RECORDS,
    4: Kind((("groupId", "string"),), {0: (("topics", [_TOPIC]),)}, 0),
    16: Kind(_EXPRESSION, {0: _RESOLVED}, 0),
}
"""Only a broker reads types 4 (topics, before Kafka 4.1) and 16 (regular expressions)."""


def decode_offsets(record: JavaRecord) -> Decoded:
    """Return key and value of a record of __consumer_offsets as `--offsets-decoder` prints them."""
    return _decoded(_PRINTED, record)


def decode_transactions(record: JavaRecord) -> Decoded:
    """Return key and value of a record as `--transaction-log-decoder` prints them."""
    return _decoded(TRANSACTION_RECORDS, record)


def _decoded(kinds: dict[int, Kind], record: JavaRecord) -> Decoded:
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
    """Return a group's value; consumers' subscriptions and assignments are decoded."""
    if value.get("protocolType") == CONSUMER:
        for member in value["members"] or ():
            member["subscription"] = _embedded(member["subscription"], _subscription)
            member["assignment"] = _embedded(member["assignment"], lambda _: ASSIGNMENT)
    return value


def _subscription(version: int) -> Schema:
    fields: int = (2, 3, 4, 5)[max(0, min(version, 3))]
    return SUBSCRIPTION[:fields]


def _embedded(data: bytes | None, schema_of: Any) -> Any:
    """Return the fields of a message behind its version; its bytes if it cannot be decoded."""
    try:
        reader = MessageReader(data or b"", flexible=False)
        return reader.struct(schema_of(reader.value("int16")))
    except CorruptRecordError:
        return data
