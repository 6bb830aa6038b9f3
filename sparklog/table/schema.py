"""The table of a topic as Delta and Parquet see it: columns, protocol, properties."""

import json
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

import pyarrow as pa

from sparklog.record.record_batches import ARROW_COLUMNS

Action = dict[str, Any]

TABLE: Final = "table"
"""The name of a table's directory in its topic's directory."""

SORTED: Final = "sparklog.sorted"
"""The tag of a file whose rows sparklog has sorted by partition and offset."""

STATISTICS: Final = ("partition", "offset", "timestamp", "timestampType")
"""The columns with bounds in each file's `add`; they are the first columns."""
COLUMNS: Final = (*STATISTICS, "key", "value", "headers", "topic")

ARROW_SCHEMA: Final = pa.schema([pa.field(name, ARROW_COLUMNS[name]) for name in COLUMNS])

READER_VERSION: Final = 1
WRITER_VERSION: Final = 2

_TYPES: Final[dict[str, Any]] = {
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "integer",
    "key": "binary",
    "value": "binary",
    "headers": {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [
                {"name": "key", "type": "string", "nullable": True, "metadata": {}},
                {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
            ],
        },
        "containsNull": True,
    },
    "topic": "string",
}


def protocol_action() -> Action:
    """Return the action `protocol`: every engine can read and write the table."""
    return {"protocol": {"minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION}}


def has_our_columns(metadata: Action) -> bool:
    """Whether a table with this `metaData` still has sparklog's columns.

    Its properties may differ, except those that change the meaning of columns or marks.
    """
    properties = metadata.get("configuration") or {}
    return (
        json.loads(metadata.get("schemaString") or "{}").get("fields") == _fields()
        and not metadata.get("partitionColumns")
        and properties.get("delta.columnMapping.mode", "none") == "none"
        and "delta.setTransactionRetentionDuration" not in properties
    )


def _fields() -> list[Action]:
    return [
        {"name": name, "type": _TYPES[name], "nullable": True, "metadata": {}} for name in COLUMNS
    ]


def metadata_action(topic: str, topic_id: str, now_ms: int, incarnation: str) -> Action:
    """Return the action `metaData` of a new table.

    `incarnation` is random, so that a table that is created again has another id. There is no
    `delta.setTransactionRetentionDuration`: with it, marks of idle partitions would expire.
    """
    return {
        "metaData": {
            "id": str(uuid5(NAMESPACE_OID, f"{topic_id}/{incarnation}")),
            "name": topic,
            "description": f"the records of topic {topic} ({topic_id})",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": _fields()}),
            "partitionColumns": [],
            "configuration": {"delta.dataSkippingStatsColumns": ",".join(STATISTICS)},
            "createdTime": now_ms,
        }
    }
