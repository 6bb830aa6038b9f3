"""The Delta log of a table: put if absent, followed, checkpointed, cleaned; foreign changes."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    StorageError,
)
from sparklog.storage.memory import MemoryFiles
from sparklog.table import delta_log as module
from sparklog.table import schema
from sparklog.table.checkpoint import encode
from sparklog.table.delta_log import CHECKPOINT_INTERVAL, ENTRIES_KEPT_MS, DeltaLog, TableCommit
from sparklog.table.marks import Mark, Marks, transactions_of
from sparklog.table.snapshot import REBUILT, Snapshot

TOPIC_ID = "A" * 22
DIRECTORY = "t/table"
LOG = f"{DIRECTORY}/_delta_log"
FIRST = [
    schema.protocol_action(),
    schema.metadata_action("t", TOPIC_ID, 0, "x"),
]


RAISED = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
"""The protocol after another engine has switched deletion vectors on."""


def add(path: str, rows: int = 1, **more: Any) -> dict[str, Any]:
    content = {"path": path, "size": 10, "partitionValues": {}, "dataChange": True}
    return {"add": {**content, "stats": json.dumps({"numRecords": rows}), **more}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 5, "dataChange": True, **more}}


class World:
    """A table in memory, one log of ours, and another writer."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles(clock=self.clock)
        self.log = DeltaLog(self.files, DIRECTORY, TOPIC_ID, self.clock)

    def commit(
        self, *actions: dict[str, Any], operation: str = "WRITE", marked: int | None = None
    ) -> Snapshot:
        """Commit, and say so in the marks, or that `marked` was the last sound version."""

        def plan(before: Snapshot) -> TableCommit:
            known = before.marks(TOPIC_ID)
            version = before.version + 1 if marked is None else marked
            after = Marks({0: Mark(0, before.version + 1)}, {}, known.rows, version)
            told = transactions_of(known, after, TOPIC_ID)
            txns = [{"txn": {"appId": name, "version": one}} for name, one in told.items()]
            made = FIRST if not before.exists else []
            return TableCommit(operation=operation, actions=[*made, *actions, *txns])

        return self.log.commit(plan)

    def put(self, version: int, *actions: dict[str, Any], engine: str = "Other") -> None:
        """Put an entry as another writer does."""
        info = {"commitInfo": {"operation": "THING", "engineInfo": engine}}
        lines = "\n".join(json.dumps(one) for one in (info, *actions))
        assert self.files.put_new(f"{LOG}/{version:020d}.json", lines.encode())

    def names(self) -> list[str]:
        return [one.path.rpartition("/")[2] for one in self.files.list(LOG)]


@pytest.fixture
def world() -> World:
    return World()


class TestReading:
    def test_no_table_has_no_version(self, world: World) -> None:
        assert not world.log.snapshot().exists

    def test_files_come_and_go(self, world: World) -> None:
        world.commit(add("a"), add("b%20c"))
        found = world.commit(remove("a"))

        assert [*found.files] == ["b c"]
        assert found.removed == {"a": 5}
        assert world.log.snapshot() == found

    def test_a_file_may_come_back_with_a_deletion_vector(self, world: World) -> None:
        world.commit(add("a"))
        world.put(1, add("a", deletionVector={"storageType": "u"}), remove("a"))

        assert [*world.log.snapshot().files] == ["a"]
        assert world.log.snapshot().removed == {}

    def test_of_the_past(self, world: World) -> None:
        world.commit(add("a"))
        world.commit(add("b"))

        assert [*world.log.snapshot(0).files] == ["a"]

    def test_an_entry_that_is_missing_is_told(self, world: World) -> None:
        world.put(2, add("a"))

        with pytest.raises(CorruptMetadataError, match=r"00000.json is missing, and version 2 is"):
            world.log.snapshot()

    def test_a_version_that_is_not_there_is_the_last(self, world: World) -> None:
        world.commit(add("a"))

        assert world.log.snapshot(7).version == 0

    def test_an_entry_that_is_no_json_is_told(self, world: World) -> None:
        world.files.put_new(f"{LOG}/{0:020d}.json", b"{")

        with pytest.raises(CorruptMetadataError, match=r"0.json: cannot be understood"):
            world.log.snapshot()


class TestCheckpoints:
    @pytest.fixture
    def many(self, world: World) -> World:
        """A table with a checkpoint, and an entry behind it."""
        for number in range(CHECKPOINT_INTERVAL + 2):
            world.commit(
                add(f"f{number}", tags={"a": "b"}), *([remove("f0")] if number == 3 else [])
            )
        return world

    def test_hold_the_whole_table(self, many: World) -> None:
        before = many.log.snapshot()
        for version in range(CHECKPOINT_INTERVAL):
            many.files.delete(f"{LOG}/{version:020d}.json")
        after = many.log.snapshot()

        assert [*after.files] == [f"f{number}" for number in range(1, CHECKPOINT_INTERVAL + 2)]
        assert after.files["f1"].action["tags"] == {"a": "b"}
        assert (after.transactions, after.metadata) == (before.transactions, before.metadata)
        assert (after.protocol, after.foreign) == (before.protocol, ())

    def test_are_found_without_their_hint(self, many: World) -> None:
        many.files.delete(f"{LOG}/_last_checkpoint")
        many.files.delete(f"{LOG}/{0:020d}.json")

        assert many.log.snapshot().version == CHECKPOINT_INTERVAL + 1

    def test_a_hint_to_one_that_is_gone_is_passed_over(self, many: World) -> None:
        many.files.delete(f"{LOG}/{CHECKPOINT_INTERVAL:020d}.checkpoint.parquet")

        assert many.log.snapshot().version == CHECKPOINT_INTERVAL + 1

    def test_one_that_another_writes_at_the_same_time_is_left_to_it(self, world: World) -> None:
        world.commit(add("f"))
        world.files.write_new(f"{LOG}/{CHECKPOINT_INTERVAL:020d}.checkpoint.parquet", b"theirs")
        for number in range(CHECKPOINT_INTERVAL):
            world.commit(add(f"f{number}"))

        assert "_last_checkpoint" not in world.names()

    def damage(
        self, world: World, version: int, damaged: Callable[[bytes], bytes] = lambda _: b"nothing"
    ) -> None:
        path = f"{LOG}/{version:020d}.checkpoint.parquet"
        data = damaged(bytes(world.files.read(path)))
        world.files.delete(path)
        world.files.write_new(path, data)

    @pytest.mark.parametrize(
        "damaged",
        [lambda _: b"nothing", lambda data: data[:4] + b"\xff" * 64 + data[68:]],
        ids=["footer", "pages"],
    )
    def test_one_that_is_damaged_is_passed_over(
        self, many: World, damaged: Callable[[bytes], bytes]
    ) -> None:
        while many.log.snapshot().version < 2 * CHECKPOINT_INTERVAL:
            many.commit()
        before = many.log.snapshot().files
        self.damage(many, 2 * CHECKPOINT_INTERVAL, damaged)
        assert many.log.snapshot().files == before
        self.damage(many, CHECKPOINT_INTERVAL, damaged)

        assert many.log.snapshot().files == before
        assert many.log.snapshot().version == 2 * CHECKPOINT_INTERVAL

    def test_that_are_damaged_are_told_where_entries_are_gone(self, many: World) -> None:
        self.damage(many, CHECKPOINT_INTERVAL)
        many.files.delete(f"{LOG}/{0:020d}.json")

        with pytest.raises(CorruptMetadataError, match="checkpoint.parquet: cannot be understood"):
            many.log.snapshot()

    def test_is_not_written_to_a_table_of_another_protocol(self, world: World) -> None:
        """It would lack the protocol's features, and the files' deletion vectors."""
        world.commit(add("a"))
        world.put(1, RAISED)
        while world.log.snapshot().version < CHECKPOINT_INTERVAL:
            world.commit(marked=0)

        assert [name for name in world.names() if "checkpoint" in name] == []

    def test_tells_of_a_protocol_that_was_raised_in_an_entry_that_is_gone(
        self, world: World
    ) -> None:
        world.commit(add("a"))
        world.put(1, RAISED)
        data = encode(replace(world.log.snapshot(), foreign=()))
        world.files.write_new(f"{LOG}/{1:020d}.checkpoint.parquet", data)
        world.files.delete(f"{LOG}/{1:020d}.json")

        assert "another writer has changed its protocol" in world.log.snapshot().problems(TOPIC_ID)

    def test_old_entries_below_an_old_one_are_deleted(self, many: World) -> None:
        many.clock.advance(2 * ENTRIES_KEPT_MS)
        while many.log.snapshot().version < 2 * CHECKPOINT_INTERVAL:
            many.commit()

        kept = f"{CHECKPOINT_INTERVAL:020d}.checkpoint.parquet"
        assert min(many.names()) == kept
        assert many.log.snapshot().version == 2 * CHECKPOINT_INTERVAL

    def test_entries_since_a_foreign_change_stay(self, world: World) -> None:
        world.commit(add("a"))
        world.put(1, add("b"))
        for version in range(2, 3 * CHECKPOINT_INTERVAL):
            world.clock.advance(ENTRIES_KEPT_MS)
            world.commit(marked=0)
            assert (world.log.snapshot().version, len(world.log.snapshot().foreign)) == (version, 1)

    def test_of_another_writer_hide_no_foreign_change(self, world: World) -> None:
        world.commit(add("a"))
        world.put(1, add("b"))
        state = world.log.snapshot()
        world.files.write_new(f"{LOG}/{1:020d}.checkpoint.parquet", encode(state))
        world.files.overwrite(f"{LOG}/_last_checkpoint", b'{"version": 1}')

        assert len(world.log.snapshot().foreign) == 1

    @pytest.mark.parametrize("hint", [b"{", b"[]", b'{"parts": 3, "version": 1}', b"{}"])
    def test_a_hint_that_says_nothing_is_passed_over(self, world: World, hint: bytes) -> None:
        world.commit(add("a"))
        world.files.overwrite(f"{LOG}/_last_checkpoint", hint)

        assert world.log.snapshot().version == 0


class Contested(MemoryFiles):
    """Files in which something happens before, or instead of, the next put."""

    happens: Callable[[str, Any], bool] | None = None

    def put_new(self, path: str, data: Any, **options: Any) -> bool:
        happens, self.happens = self.happens, None
        if happens is not None:
            return happens(path, data)
        return super().put_new(path, data, **options)


class TestCommitting:
    @pytest.fixture
    def world(self) -> World:
        world = World()
        world.files = Contested()
        world.log = DeltaLog(world.files, DIRECTORY, TOPIC_ID, world.clock)
        return world

    def let(self, world: World, happens: Callable[[str, Any], bool]) -> None:
        assert isinstance(world.files, Contested)
        world.files.happens = happens

    def test_plans_again_when_another_was_faster(self, world: World) -> None:
        def lost(path: str, data: Any) -> bool:
            world.put(0, add("theirs"), engine="sparklog/1")
            return world.files.put_new(path, data)

        self.let(world, lost)

        assert {*world.commit(add("ours")).files} == {"theirs", "ours"}

    def test_knows_its_own_entry_though_the_store_says_it_is_there(self, world: World) -> None:
        def retried(path: str, data: Any) -> bool:
            world.files.put_new(path, data)
            return False

        self.let(world, retried)

        assert world.commit(add("a")).version == 0

    def test_knows_its_own_entry_though_the_put_failed(self, world: World) -> None:
        def failed(path: str, data: Any) -> bool:
            world.files.put_new(path, data)
            raise StorageError("timeout")

        self.let(world, failed)

        assert world.commit(add("a")).version == 0

    def test_raises_what_the_storage_does_where_nothing_was_put(self, world: World) -> None:
        def failed(path: str, data: Any) -> bool:
            raise StorageError("no space")

        self.let(world, failed)

        with pytest.raises(StorageError, match="no space"):
            world.commit(add("a"))

    def test_may_find_nothing_to_do(self, world: World) -> None:
        assert not world.log.commit(lambda _: None).exists

    def test_gives_up_when_others_are_always_faster(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "TRIES_MAX", 1)

        def lost(path: str, data: Any) -> bool:
            world.put(0, add("theirs"))
            return False

        self.let(world, lost)

        with pytest.raises(CommitConflictError, match="others were faster 1 times"):
            world.commit(add("a"))


class TestForeignChanges:
    @pytest.mark.parametrize(
        ("action", "what"),
        [
            (add("b"), "rows"),
            (remove("a"), "rows"),
            (add("b", dataChange=False, deletionVector={"storageType": "u"}), "rows"),
            ({"metaData": {"id": "x", "schemaString": "{}"}}, "columns or properties"),
            (RAISED, "protocol"),
            ({"txn": {"appId": "sparklog/x/0", "version": 9}}, "marks"),
        ],
    )
    def test_are_named(self, world: World, action: dict[str, Any], what: str) -> None:
        world.commit(add("a"))
        world.put(1, action)

        assert world.log.snapshot().foreign == (
            f"version 1 of the table is THING by Other, which changes its {what}",
        )

    @pytest.mark.parametrize(
        "action",
        [
            add("b", dataChange=False),
            remove("a", dataChange=False),
            {"txn": {"appId": "another", "version": 9}},
            {"metaData": {**FIRST[1]["metaData"], "configuration": {"comment": "ours"}}},
            FIRST[0],
            {"cdc": {"path": "x"}},
        ],
    )
    def test_are_no_rewriting_of_files(self, world: World, action: dict[str, Any]) -> None:
        world.commit(add("a"))
        world.put(1, action)

        assert world.log.snapshot().foreign == ()

    def test_of_an_unknown_writer_are_named_too(self, world: World) -> None:
        world.commit(add("a"))
        world.files.put_new(f"{LOG}/{1:020d}.json", json.dumps(add("b")).encode())

        assert world.log.snapshot().foreign == (
            "version 1 of the table is a commit by another writer, which changes its rows",
        )

    def test_end_with_a_rebuild(self, world: World) -> None:
        world.commit(add("a"))
        world.put(1, add("b"))
        world.commit(operation=REBUILT)

        assert world.log.snapshot().foreign == ()

    def test_are_found_by_the_count_of_rows(self, world: World) -> None:
        world.commit(add("a", rows=3))

        assert world.log.snapshot().problems(TOPIC_ID) == [
            "its files hold 3 rows, sparklog has put 0 there"
        ]

    def test_rows_that_nobody_has_counted_say_nothing(self, world: World) -> None:
        world.commit(add("a", stats=None))

        assert world.log.snapshot().problems(TOPIC_ID) == []
