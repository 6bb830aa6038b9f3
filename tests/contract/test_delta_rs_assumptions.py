"""What `manifest.delta_rs` takes for granted of deltalake: seen to be so, release by release.

A red test here says that an upgrade changed something our commit loop rests on.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from sparklog.clock import SystemClock
from sparklog.manifest.delta_rs import CHECKPOINT_INTERVAL, TABLE_PROPERTIES

SCHEMA = pa.schema([("a", pa.int64())])
PROPERTIES = TABLE_PROPERTIES | {"delta.logRetentionDuration": "interval 0 seconds"}


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], DeltaTable]:
    """Opens one table whose log entries are old at once."""
    DeltaTable.create(str(tmp_path / "t"), SCHEMA, mode="ignore", configuration=PROPERTIES)
    return lambda: DeltaTable(str(tmp_path / "t"))


def log_files(tmp_path: Path, suffix: str = "") -> list[str]:
    found = (path.name for path in (tmp_path / "t" / "_delta_log").iterdir())
    return sorted(name for name in found if name.endswith(suffix))


def add(name: str) -> AddAction:
    return AddAction(name, 1, {}, 1, True, '{"numRecords": 1}')


def commit(table: DeltaTable, *actions: Any, transactions: Sequence[Transaction] = ()) -> None:
    table.create_write_transaction(
        list(actions),
        "append",
        SCHEMA,
        commit_properties=CommitProperties(
            max_commit_retries=0, app_transactions=list(transactions)
        ),
        post_commithook_properties=PostCommitHookProperties(
            create_checkpoint=True, cleanup_expired_logs=False
        ),
    )


def commit_often(table: DeltaTable, last_version: int) -> None:
    for version in range(table.version() + 1, last_version + 1):
        commit(table, add(f"{version}.parquet"))
        table.update_incremental()


def names(table: DeltaTable) -> set[str]:
    return {uri.rpartition("/")[2] for uri in table.file_uris()}


class TestCommitting:
    def test_without_retries_only_the_version_read_can_be_followed(
        self, opened: Callable[[], DeltaTable]
    ) -> None:
        stale, other = opened(), opened()
        commit(other, add("other"))

        with pytest.raises(CommitFailedError):
            commit(stale, add("mine"))

        assert names(opened()) == {"other"}
        assert stale.version() == 0

    def test_a_handle_does_not_see_its_own_commit_until_updated(
        self, opened: Callable[[], DeltaTable]
    ) -> None:
        table = opened()
        commit(table, add("a"))
        seen = table.version()
        table.update_incremental()

        assert (seen, table.version()) == (0, 1)

    def test_adds_and_removes_in_one_commit_whatever_they_say_of_the_data(
        self, opened: Callable[[], DeltaTable]
    ) -> None:
        table = opened()
        commit(table, add("a"), add("b"))
        table.update_incremental()
        commit(table, add("c"), RemoveAction("a", False, 1), RemoveAction("b", True, 1))

        assert names(opened()) == {"c"}

    def test_a_commit_of_nothing_is_a_version(self, opened: Callable[[], DeltaTable]) -> None:
        commit(opened())

        assert opened().version() == 1

    def test_a_handle_whose_version_was_cleaned_up_cannot_commit(
        self, opened: Callable[[], DeltaTable], tmp_path: Path
    ) -> None:
        """Else a sleeper would commit below the checkpoint, where nobody looks."""
        stale, table = opened(), opened()
        commit_often(table, CHECKPOINT_INTERVAL)
        table.cleanup_metadata()

        with pytest.raises(DeltaError, match="Invalid table version"):
            commit(stale, add("lost"))

        assert len(log_files(tmp_path, ".json")) == 2
        assert "lost" not in names(opened())


class TestTransactions:
    def test_the_version_of_an_application_is_that_of_the_handle(
        self, opened: Callable[[], DeltaTable]
    ) -> None:
        table = opened()
        commit(table, transactions=[Transaction("app", 7, SystemClock().now_ms())])
        before = table.transaction_version("app")
        table.update_incremental()

        assert (before, table.transaction_version("app")) == (None, 7)
        assert table.transaction_version("other") is None

    def test_is_forgotten_after_the_retention(self, opened: Callable[[], DeltaTable]) -> None:
        thirty_days_ms = 30 * 24 * 3600 * 1000
        old_ms = SystemClock().now_ms() - thirty_days_ms - 1
        commit(opened(), transactions=[Transaction("app", 7, old_ms)])

        assert opened().transaction_version("app") is None


class TestCheckpoints:
    def test_the_hundredth_version_makes_one_and_deletes_nothing(
        self, opened: Callable[[], DeltaTable], tmp_path: Path
    ) -> None:
        last = CHECKPOINT_INTERVAL - 1
        commit_often(opened(), last)

        assert log_files(tmp_path, ".parquet") == [f"{last:020}.checkpoint.parquet"]
        assert len(log_files(tmp_path, ".json")) == CHECKPOINT_INTERVAL
        assert "_last_checkpoint" in log_files(tmp_path)

    def test_cleaning_up_keeps_the_table(
        self, opened: Callable[[], DeltaTable], tmp_path: Path
    ) -> None:
        table = opened()
        old = opened()
        commit_often(table, CHECKPOINT_INTERVAL + 5)
        table.cleanup_metadata()
        old.update_incremental()

        first = f"{CHECKPOINT_INTERVAL - 1:020}.json"
        assert log_files(tmp_path, ".json")[0] == first
        assert opened().version() == old.version() == CHECKPOINT_INTERVAL + 5
        assert names(opened()) == names(old) == names(table)

    def test_a_damaged_pointer_is_done_without(
        self, opened: Callable[[], DeltaTable], tmp_path: Path
    ) -> None:
        commit_often(opened(), CHECKPOINT_INTERVAL)
        (tmp_path / "t" / "_delta_log" / "_last_checkpoint").write_bytes(b"")

        assert opened().version() == CHECKPOINT_INTERVAL


class TestTornFiles:
    """Why sparklog.manifest.torn is needed, and DeltaLog refuses an empty entry itself."""

    def test_an_empty_entry_is_passed_over(
        self, opened: Callable[[], DeltaTable], tmp_path: Path
    ) -> None:
        commit(opened(), add("a"))
        (tmp_path / "t" / "_delta_log" / f"{2:020}.json").write_bytes(b"")

        assert opened().version() == 2
        assert names(opened()) == {"a"}

    def test_half_an_entry_makes_the_table_unreadable(
        self, opened: Callable[[], DeltaTable], tmp_path: Path
    ) -> None:
        commit(opened(), add("a"))
        (tmp_path / "t" / "_delta_log" / f"{2:020}.json").write_bytes(b'{"add":{')

        with pytest.raises(DeltaError):
            opened()

    def test_so_does_a_torn_checkpoint(
        self, opened: Callable[[], DeltaTable], tmp_path: Path
    ) -> None:
        commit_often(opened(), CHECKPOINT_INTERVAL)
        (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
        checkpoint.write_bytes(checkpoint.read_bytes()[:100])

        with pytest.raises(DeltaError):
            opened()


class TestOpening:
    def test_what_is_not_there_is_told_apart(self, tmp_path: Path) -> None:
        with pytest.raises(TableNotFoundError):
            DeltaTable(str(tmp_path / "nothing"))

    def test_a_table_is_made_once(self, opened: Callable[[], DeltaTable], tmp_path: Path) -> None:
        commit(opened(), add("a"))
        DeltaTable.create(str(tmp_path / "t"), SCHEMA, mode="ignore", configuration=PROPERTIES)

        assert names(opened()) == {"a"}

    def test_what_a_table_says_of_itself(self, tmp_path: Path) -> None:
        made = DeltaTable.create(
            str(tmp_path / "other"), SCHEMA, description="words", configuration=TABLE_PROPERTIES
        )

        assert made.metadata().description == "words"
        assert made.metadata().configuration == TABLE_PROPERTIES
        assert made.protocol().min_reader_version == 1
        assert made.protocol().min_writer_version == 2
