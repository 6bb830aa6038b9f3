"""Delta's checkpoint and the hint to it: every flip that a reader sees is found, and mended."""

import json
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklog.metadata import delta
from sparklog.metadata.names import ENTRIES, POINTER, checkpoint_path
from sparklog.storage.local import LocalFiles
from tests.metadata_logs import World
from tests.repairing import found, made, mended

OLDER, NEWEST = 7, 12
"""The versions of the folds."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(World(LocalFiles(str(tmp_path))))


def rewritten(world: World, data: pa.Table, **how: Any) -> None:
    """Write the newest checkpoint as another release did."""
    path = Path(world.files.uri, checkpoint_path(NEWEST))
    pq.write_table(data, path, store_schema=False, **how)


def rows(world: World) -> pa.Table:
    return pq.read_table(Path(world.files.uri, checkpoint_path(NEWEST)))


def with_columns(world: World, change: Any) -> None:
    """Write the newest checkpoint with other columns of the runs."""
    table = rows(world)
    said = table.to_pylist()
    schema = json.loads(said[1]["metaData"]["schemaString"])
    change(schema["fields"])
    said[1]["metaData"]["schemaString"] = json.dumps(schema)
    rewritten(world, pa.Table.from_pylist(said, schema=table.schema))


class TestFlips:
    @pytest.mark.parametrize("path", [checkpoint_path(NEWEST), POINTER])
    def test_each_is_found_and_mended(self, world: World, path: str) -> None:
        file = Path(world.files.uri, path)
        data, random = file.read_bytes(), Random(path)
        places = list(range(len(data)))
        if path != POINTER:  # nobody reads who made it
            del places[data.find(b"parquet-cpp") : data.rfind(b"parquet-cpp") + 40]
        for at in random.sample(places, 150) if len(places) > 150 else places:
            wrong = bytearray(data)
            wrong[at] ^= 1 << random.randrange(8)
            file.write_bytes(wrong)

            assert path in found(world), at
        mended(world)
        assert (file.read_bytes(), found(world)) == (data, [])


class TestOtherWriters:
    """Theirs are other bytes."""

    @pytest.mark.parametrize("how", [{}, {"compression": "snappy", "use_dictionary": False}])
    def test_the_same_rows_are_sound(self, world: World, how: dict[str, Any]) -> None:
        rewritten(world, rows(world), **how)

        assert found(world) == []

    def test_fewer_columns_are_an_older_release(self, world: World) -> None:
        with_columns(world, list.pop)

        assert found(world) == []

    def test_other_columns_are_told(self, world: World) -> None:
        with_columns(world, lambda fields: fields.append({**deepcopy(fields[0]), "name": "x"}))

        assert checkpoint_path(NEWEST) in found(world)

    def test_other_runs_are_told(self, world: World) -> None:
        runs = [world.log.image().fold.runs[0]._replace(bytes=1)]
        table = delta.metadata(world.log.log_id)
        rewritten(world, pq.read_table(pa.BufferReader(delta.checkpoint(table, runs))))

        assert checkpoint_path(NEWEST) in found(world)


def test_one_that_a_cleaner_deletes_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = LocalFiles.list

    def then_deleted(files: LocalFiles, path: str, **how: Any) -> Any:
        listed = list(listing(files, path, **how))
        if path == ENTRIES:
            files.delete_many([checkpoint_path(OLDER)])
        return listed

    monkeypatch.setattr(LocalFiles, "list", then_deleted)
    assert found(world) == []


def test_a_pointer_that_a_fold_writes_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = LocalFiles.read

    def then_folded(files: LocalFiles, path: str, *where: int) -> Any:
        data = read(files, path, *where)
        if path == POINTER and b"99" not in bytes(data):
            files.overwrite(POINTER, b'{"version":99,"size":3}')
        return data

    monkeypatch.setattr(LocalFiles, "read", then_folded)
    world.files.overwrite(POINTER, b'{"version":12}')

    assert found(world) == []
