"""A snapshot as a Parquet file, a row for each action (Delta's protocol, "Checkpoints")."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from sparklog.table.schema import Action
from sparklog.table.snapshot import Snapshot

SIDECAR: Final = "sidecar"
"""The action of Delta's format V2 that names another file with actions of the checkpoint."""

_STRINGS: Final = pa.map_(pa.string(), pa.string())
_SCHEMA: Final = pa.schema(
    [
        (
            "txn",
            pa.struct(
                [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
            ),
        ),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("tags", _STRINGS),
                    ("stats", pa.string()),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _STRINGS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        ),
    ]
)


def encode(snapshot: Snapshot) -> bytes:
    """Return the checkpoint of a snapshot; paths are percent-encoded, as in `add`."""
    rows: list[Action] = [{"protocol": snapshot.protocol}, {"metaData": snapshot.metadata}]
    rows += [
        {"txn": {"appId": app_id, "version": version, "lastUpdated": snapshot.updated.get(app_id)}}
        for app_id, version in snapshot.transactions.items()
    ]
    rows += [{"add": {**one.action, "dataChange": False}} for one in snapshot.files.values()]
    rows += [
        {"remove": {"path": quote(path), "deletionTimestamp": when, "dataChange": False}}
        for path, when in snapshot.removed.items()
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink, store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: memoryview) -> list[Action]:
    """Return the actions of a file of a checkpoint, also of one that another writer has written.

    Raises pyarrow.ArrowException or OSError for bytes that are not a sound Parquet file.
    """
    file = pq.ParquetFile(pa.BufferReader(data))
    known = (*_SCHEMA.names, SIDECAR)
    wanted = [name for name in known if name in file.schema_arrow.names]
    return [
        {name: _plain(content)}
        for row in file.read(columns=wanted).to_pylist()
        for name, content in row.items()
        if content is not None
    ]


def _plain(content: Mapping[str, Any]) -> Action:
    """Return an action as in JSON: maps are objects, and null fields are left out."""
    found = {name: value for name, value in content.items() if value is not None}
    for name in ("partitionValues", "tags", "configuration"):
        if name in found:
            found[name] = dict(found[name])
    if "format" in found:
        found["format"] = {
            "provider": found["format"]["provider"],
            "options": dict(found["format"]["options"] or ()),
        }
    return found
