"""Control records: their type, and their text as Kafka's dump tool prints it.

key      int16 version | int16 type
value    ABORT, COMMIT (EndTxnMarker): int16 version | int32 coordinator epoch
         KRaft's own: a flexible message that begins with its int16 version
"""

from typing import Final

from sparklog.coordinator.messages import MessageReader, Schema, json_text, read_message
from sparklog.errors import CorruptRecordError
from sparklog.record.markers import ABORT, COMMIT

LEADER_CHANGE: Final = 2
_NAMES: Final = ("ABORT", "COMMIT")

_ENDPOINT: Final[Schema] = (("name", "string"), ("host", "string"), ("port", "uint16"))
_FEATURE: Final[Schema] = (("minSupportedVersion", "int16"), ("maxSupportedVersion", "int16"))
_VOTER: Final[Schema] = (
    ("voterId", "int32"),
    ("voterDirectoryId", "uuid"),
    ("endpoints", [_ENDPOINT]),
    ("kRaftVersionFeature", _FEATURE),
)
_KRAFT: Final[dict[int, tuple[str, Schema]]] = {
    3: ("SnapshotHeader ", (("version", "int16"), ("lastContainedLogTimestamp", "int64"))),
    4: ("SnapshotFooter ", (("version", "int16"),)),
    5: ("KRaftVersion ", (("version", "int16"), ("kRaftVersion", "int16"))),
    6: ("KRaftVoters ", (("version", "int16"), ("voters", [_VOTER]))),
}


def control_type(key: bytes | None) -> int:
    """Return the type of a control record. Raises CorruptRecordError for a key without a type."""
    if key is None or len(key) < 4:
        size = "null" if key is None else f"only {len(key)}"
        raise CorruptRecordError(
            "Invalid value size found for end control record key. Must have at least 4 bytes, but "
            f"found {size}"
        )
    reader = MessageReader(key, flexible=False)
    version = reader.value("int16")
    if version < 0:
        raise CorruptRecordError(
            f"Invalid version found for control record: {version}. May indicate data corruption"
        )
    return int(reader.value("int16"))


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return the text behind the numbers of a control record.

    It is that of DumpLogSegments.printControlRecord. Raises CorruptRecordError where Kafka's
    classes throw an exception.
    """
    kind = control_type(key)
    data = value or b""
    if kind in (ABORT, COMMIT):
        return f" endTxnMarker: {_NAMES[kind]} coordinatorEpoch: {_coordinator_epoch(data)}"
    if kind == LEADER_CHANGE:
        return (
            f" LeaderChange: {json_text(read_message(data, _leader_change(data), flexible=True))}"
        )
    if kind in _KRAFT:
        title, schema = _KRAFT[kind]
        return f" {title}{json_text(read_message(data, schema, flexible=True))}"
    return f" controlType: UNKNOWN({kind})"


def _coordinator_epoch(data: bytes) -> int:
    reader = MessageReader(data, flexible=False)
    version = reader.value("int16")
    if version < 0:
        raise CorruptRecordError(
            f"Invalid version found for end transaction marker: {version}. May indicate data "
            f"corruption"
        )
    return int(reader.value("int32"))


def _leader_change(data: bytes) -> Schema:
    voter: Schema = (("voterId", "int32"),)
    if data[:2] > b"\0\0":
        voter = (*voter, ("voterDirectoryId", "uuid"))
    return (
        ("version", "int16"),
        ("leaderId", "int32"),
        ("voters", [voter]),
        ("grantingVoters", [voter]),
    )
