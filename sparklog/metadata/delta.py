"""The metadata log as a Delta table: the actions by which other engines read it.

The table has reader version 1, and writer version 7 with the writer feature `sparklog`: any engine
may read its rows and its history, no other engine may write. Its files are the runs.
"""

import json
from collections.abc import Sequence
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from sparklog.metadata.runs.tables import RUN_SCHEMA, table_of
from sparklog.metadata.state.edit import Edit, FoldEdit, RunFile
from sparklog.record.batches import Buffer

DESCRIPTION: Final = "sparklog metadata 2"
WRITER_FEATURE: Final = "sparklog"
PROTOCOL: Final = {
    "minReaderVersion": 1,
    "minWriterVersion": 7,
    "writerFeatures": [WRITER_FEATURE],
}

Action = dict[str, Any]


def table_actions(log_id: str) -> list[Action]:
    """Return the actions that make the table: its protocol and its schema."""
    return [{"protocol": PROTOCOL}, {"metaData": metadata(log_id)}]


def metadata(log_id: str) -> Action:
    """Return the content of Delta's action `metaData`; `log_id` is the log's incarnation.

    It depends on nothing else of the log dir, so every process that folds writes the same.
    """
    return {
        "id": str(uuid5(NAMESPACE_OID, log_id)),
        "description": DESCRIPTION,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(
            {"type": "struct", "fields": [_field(field) for field in RUN_SCHEMA]}
        ),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }


def run_actions(before: FoldEdit, edits: Sequence[Edit]) -> list[Action]:
    """Return Delta's actions `add` and `remove` for edits; none unless one of them is a fold."""
    actions: list[Action] = []
    for edit in edits:
        if edit.fold is None:
            continue
        old = {run.path: run for run in before.runs}
        new = {run.path: run for run in edit.fold.runs}
        actions += [{"add": add(run)} for path, run in new.items() if path not in old]
        actions += [
            {"remove": {"path": path, "dataChange": False}} for path in old if path not in new
        ]
    return actions


def add(run: RunFile) -> Action:
    """Return the content of Delta's action `add` for a run."""
    return {
        "path": run.path,
        "partitionValues": {},
        "size": run.bytes,
        "modificationTime": 0,
        "dataChange": False,
        "stats": json.dumps({"numRecords": run.rows}),
    }


def checkpoint(table: Action, runs: Sequence[RunFile]) -> bytes:
    """Return the bytes of a checkpoint: one row per action (Delta's protocol, "Checkpoints").

    `table` is the content of the table's action `metaData`.
    """
    rows: list[Action] = [{"protocol": PROTOCOL}, {"metaData": table}]
    rows += [{"add": add(run)} for run in runs]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table_of(rows, _CHECKPOINT),
        sink,
        store_schema=False,
        write_page_checksum=True,
        compression="none",  # so one version of pyarrow writes the same bytes on all machines
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def pointer(version: int, runs: Sequence[RunFile]) -> bytes:
    """Return the bytes of Delta's hint to the checkpoint of a version, which has these runs."""
    return orjson.dumps({"version": version, "size": 2 + len(runs)})


def checkpoint_problem(data: Buffer, table: Action, runs: Sequence[RunFile]) -> str:
    """Return why these bytes are not the checkpoint of a fold; "" if they are.

    They are those of `checkpoint`, or written by another version of pyarrow or another release:
    then the rows must be the same. An older release may have known fewer columns of a run.
    """
    wanted = checkpoint(table, runs)
    if data == wanted:
        return ""
    try:
        (rows, schema, maker), (due, whole, mine) = map(_understood, (data, wanted))
    except (pa.ArrowException, ValueError, OSError) as error:
        return f"no Parquet file (torn?): {error}"
    if rows != due or not all(column in whole for column in schema):
        return "its rows are not those of its fold"
    if maker == mine and schema == whole:
        return "its rows are those of its fold, but other bytes are not as they were written"
    return ""


def _understood(data: Buffer) -> tuple[list[Action], list[Any], tuple[str, str]]:
    """Return a checkpoint's rows without the table's columns, these, and what its bytes depend on.

    Raises ValueError, OSError or ArrowException if it cannot be read.
    """
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    rows: list[Action] = file.read(use_threads=False).to_pylist()
    schemas = [one.pop("schemaString") for row in rows if (one := row.get("metaData"))]
    columns = [one for schema in schemas for one in json.loads(schema)["fields"]]
    return (
        rows,
        columns,
        (file.metadata.created_by, file.metadata.row_group(0).column(0).compression),
    )


_STRINGS: Final = pa.map_(pa.string(), pa.string())
_PROTOCOL: Final = {
    "minReaderVersion": pa.int32(),
    "minWriterVersion": pa.int32(),
    "writerFeatures": pa.list_(pa.string()),
}
_METADATA: Final = {
    "id": pa.string(),
    "description": pa.string(),
    "format": pa.struct({"provider": pa.string(), "options": _STRINGS}),
    "schemaString": pa.string(),
    "partitionColumns": pa.list_(pa.string()),
    "configuration": _STRINGS,
    "createdTime": pa.int64(),
}
_ADD: Final = {
    "path": pa.string(),
    "partitionValues": _STRINGS,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "stats": pa.string(),
}
_CHECKPOINT: Final = pa.schema(
    [
        ("protocol", pa.struct(_PROTOCOL)),
        ("metaData", pa.struct(_METADATA)),
        ("add", pa.struct(_ADD)),
    ]
)


def _field(field: pa.Field) -> Action:
    """Return a column, always nullable: for NOT NULL delta-spark wants the feature invariants."""
    return {
        "name": field.name,
        "type": _type(field.type),
        "nullable": True,
        "metadata": {},
    }


_NAMES: Final = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.bool_(): "boolean",
}


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type),
            "valueType": _type(kind.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(one) for one in kind]}
    return _NAMES[kind]
