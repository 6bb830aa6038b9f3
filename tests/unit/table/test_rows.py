"""The rows of a file of the table are read in parts, however well the file is compressed."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparklog.errors import CorruptMetadataError
from sparklog.storage.memory import MemoryFiles
from sparklog.table import parquet, rows
from sparklog.table.footer import opened
from sparklog.table.parquet import write_files
from sparklog.table.rows import read_rows
from sparklog.table.schema import ARROW_SCHEMA

ROW_GROUP_BYTES = 64 * 1024
VALUE = b"v" * 1024


def records(first: int, count: int) -> pa.RecordBatch:
    """Records with the same value."""
    columns = {
        "partition": [0] * count,
        "offset": list(range(first, first + count)),
        "timestamp": [0] * count,
        "timestampType": [0] * count,
        "key": [None] * count,
        "value": [VALUE] * count,
        "headers": [None] * count,
        "topic": ["t"] * count,
    }
    arrays = [pa.array(columns[field.name], field.type) for field in ARROW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def test_a_part_is_small_though_a_file_has_a_value_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (parquet, rows):
        monkeypatch.setattr(module, "ROW_GROUP_BYTES", ROW_GROUP_BYTES)
    monkeypatch.setattr(rows, "BATCH_BYTES", ROW_GROUP_BYTES // 8)
    files = MemoryFiles()
    (one,) = write_files(files, "t/table", (records(32 * at, 32) for at in range(20)), 0)
    parts = list(read_rows(opened(files, f"t/table/{one.path}"), ["offset", "value"]))

    assert one.bytes < ROW_GROUP_BYTES
    assert max(pc.sum(pc.binary_length(part["value"])).as_py() for part in parts) <= 8 * 1024
    assert [at for part in parts for at in part["offset"].to_pylist()] == list(range(640))


def test_damage_in_a_page_is_told() -> None:
    files = MemoryFiles()
    (one,) = write_files(files, "t/table", [records(0, 9)], 0)
    data = bytes(files.read(f"t/table/{one.path}"))
    files.write_new("t/table/damaged.parquet", data[:4] + b"\xff" * 64 + data[68:])
    file = opened(files, "t/table/damaged.parquet")

    with pytest.raises(CorruptMetadataError, match="t/table/damaged.parquet: no sound Parquet"):
        list(read_rows(file, ["partition"]))
