"""Checkpoints in the forms of other engines: of several parts, and of Delta's format V2."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklog.errors import CorruptMetadataError
from sparklog.table.checkpoint import encode
from tests.unit.table.test_delta_log import LOG, World, add


@pytest.mark.parametrize("form", ["json", "parquet", "parts"])
def test_are_read(form: str) -> None:
    """Another engine writes them, and deletes the entries before them."""
    world = World()
    world.commit(add("a"), add("b"))
    state, name = world.commit(add("c")), f"{1:020d}.checkpoint"
    of_files = [encode(replace(state, files={one: state.files[one]})) for one in state.files]
    if form == "parts":
        paths = [f"{name}.{part:010d}.{3:010d}.parquet" for part in (1, 2, 3)]
    else:
        paths = [f"_sidecars/{number} {uuid4()}.parquet" for number in range(3)]
        told = [{"sidecar": {"path": quote(path.removeprefix("_sidecars/"))}} for path in paths]
        lines = "\n".join(map(json.dumps, [{"checkpointMetadata": {"version": 0}}, *told]))
        main = lines.encode() if form == "json" else _parquet(told)
        world.files.write_new(f"{LOG}/{name}.{uuid4()}.{form}", main)
    for path, data in zip(paths, of_files, strict=True):
        world.files.write_new(f"{LOG}/{path}", data)
    world.files.delete(f"{LOG}/{0:020d}.json")

    assert world.log.snapshot() == replace(state, timestamp_ms=0, foreign=[])
    world.files.delete(f"{LOG}/{paths[1]}")
    with pytest.raises(CorruptMetadataError, match=r"00000.json is missing, and version 1 is"):
        world.log.snapshot()


def _parquet(actions: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(actions), sink)
    return bytes(sink.getvalue())
