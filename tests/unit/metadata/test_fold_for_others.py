"""Delta's readers read a folded log by SQL; their VACUUM and writes do no harm."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from sparklog.errors import CorruptMetadataError, LogDirError, StorageError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.runs.rows import merged
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.transactions import TransactionalId
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems
from sparklog.storage.local import LocalFiles
from tests.metadata_logs import World, names, read

PAGE = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(LocalFiles(str(tmp_path)))


def newest_rows(table: DeltaTable) -> list[dict[str, Any]]:
    """Run the query of docs/format.md for the rows that count."""
    (query,) = re.findall(r"^```sql\n(WITH newest .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    said = query.replace("delta.`<log dir>/__cluster_metadata`", "metadata")
    found = QueryBuilder().register("metadata", table).execute(said)
    rows: list[dict[str, Any]] = pa.table(found.read_all()).to_pylist()
    return rows


class TestForOthers:
    """Delta's readers read it; their VACUUM and writes do no harm."""

    @pytest.fixture
    def table(self, world: World) -> str:
        world.produce(9)
        fold(world.log)
        world.produce(2)
        world.remove_first(1)
        fold(world.log)
        world.produce(1)
        return f"{world.files.uri}/{CLUSTER_METADATA}"

    def test_the_query_returns_the_rows_of_the_image(self, world: World, table: str) -> None:
        rows = newest_rows(DeltaTable(table))
        runs = reversed(world.log.image().fold.runs)
        expected = merged([world.log.runs.whole(run) for run in runs], drops_gone=True)

        assert len(rows) == expected.num_rows
        partitions = [row for row in rows if row["kind"] == "partition"]
        ends = {row["partition"]: row["log_end_offset"] for row in partitions}
        assert ends == {0: 20, 1: 30, 2: 30, 3: 30}
        segments = [row for row in rows if row["kind"] == "segment" and row["removed_ms"] is None]
        assert len(segments) == 10

    def test_the_query_returns_the_newest_row_of_a_transactional_id(self, world: World) -> None:
        for ids in (
            {"moves": TransactionalId("moves", 1, 0, 9), "goes": TransactionalId("goes", 3, 0, 9)},
            {"moves": TransactionalId("moves", 2, 0, 9), "goes": None},
        ):
            world.commit(Edit(operation="INIT", transactional_ids=ids))
            fold(world.log)
        rows = newest_rows(DeltaTable(f"{world.files.uri}/{CLUSTER_METADATA}"))

        said = [row for row in rows if row["kind"] == "transactional_id"]
        assert [(row["name"], row["producer_id"]) for row in said] == [("moves", 2)]

    def test_their_vacuum_deletes_nothing(self, world: World, table: str) -> None:
        kept, said = names(world.files), read(world.log)
        gone = DeltaTable(table).vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
        )

        left = [name for name in names(world.files) if "_delta_log" not in name]
        assert gone == []
        assert left == [name for name in kept if "_delta_log" not in name]
        assert read(world.fresh()) == said

    def test_what_they_commit_is_refused_or_passed_over(self, world: World, table: str) -> None:
        DeltaTable(table).vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
        )
        found = list(problems(world.files, world.clock))

        assert found == []
        world.produce(1)
        path = Path(table, "_delta_log", f"{world.log.image().version + 1:020}.json")
        path.write_text('{"commitInfo":{"operation":"OPTIMIZE"}}\n{"remove":{"path":"x"}}\n')
        with pytest.raises(LogDirError, match=f"{path.name}: OPTIMIZE of None holds remove"):
            world.fresh().image()

    def test_a_run_they_took_is_told(self, world: World, table: str) -> None:
        Path(table, world.log.image().fold.runs[0].path).unlink()

        with pytest.raises((StorageError, CorruptMetadataError), match="_runs/"):
            MetadataLog(world.files, world.clock).image()
