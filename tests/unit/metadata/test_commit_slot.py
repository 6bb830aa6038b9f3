"""The slot of a commit decides: a put may answer anything, and the log dir may be replaced."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    MissingFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)
from sparklog.metadata.entries import LOCAL_PUT_TRIES, PUT_TIMEOUT_MS, REFUSED_PUT_MS
from sparklog.metadata.log import COMMIT_TIMEOUT_MS, MetadataLog
from sparklog.metadata.names import entry_path
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.image import Image
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.edits import segment
from tests.metadata_language import (
    TOPIC,
    Put,
    ToldOtherwise,
    append,
    error_after_success,
    new_log,
    producing,
)


def exists_after_success(put: Put, path: str, data: Any) -> bool:
    put(path, data)
    return False


def error_before(put: Put, path: str, data: Any) -> bool:
    raise StorageError("no connection")


def not_allowed(*_: Any) -> bool:
    raise StoragePermissionError("no right to put")


def exists_with_nothing_written(put: Put, path: str, data: Any) -> bool:
    return False


def as_it_is(put: Put, path: str, data: Any) -> bool:
    return put(path, data)


class TestSlot:
    @pytest.mark.parametrize(
        "answers",
        [
            [exists_after_success],
            [error_after_success],
            [error_before],
            [exists_with_nothing_written],
            [error_before, exists_with_nothing_written, error_after_success],
        ],
    )
    def test_a_commit_lands_once(self, answers: list[Any]) -> None:
        files = ToldOtherwise()
        log = new_log(files)
        files.answers = list(answers)

        assert append(log) == 10
        assert append(MetadataLog(files, ManualClock())) == 20
        assert log.image().version == 3

    def test_what_others_put_there_is_followed_and_planned_on(self) -> None:
        files = ToldOtherwise()
        log, other = new_log(files), MetadataLog(files, ManualClock())

        def lost(put: Put, path: str, data: Any) -> bool:
            append(other)
            raise StorageError("no connection")

        files.answers = [lost]

        assert append(log) == 20

    def test_others_that_always_win_end_it_in_time(self) -> None:
        files, clock = ToldOtherwise(), ManualClock()
        log, other = new_log(files, clock), MetadataLog(files, ManualClock())

        def lost(put: Put, path: str, data: Any) -> bool:
            clock.advance(COMMIT_TIMEOUT_MS // 2)
            append(other)
            return False

        files.answers = [lost, as_it_is, lost, as_it_is]

        with pytest.raises(CommitConflictError, match="other commits landed first 2 times"):
            append(log)

    def test_a_slot_that_stays_empty_is_given_up_after_a_minute(self) -> None:
        files = ToldOtherwise()
        clock = ManualClock()
        log = new_log(files, clock)
        files.answers = [error_before] * 10_000
        begun_ms = clock.boot_ms()

        with pytest.raises(CommitOutcomeUnknownError, match="no connection.*replay"):
            append(log)
        assert PUT_TIMEOUT_MS < clock.boot_ms() - begun_ms < 2 * PUT_TIMEOUT_MS

    def test_a_put_that_is_not_allowed_is_told_as_that(self) -> None:
        files, clock = ToldOtherwise(), ManualClock()
        log = new_log(files, clock)
        files.answers = [not_allowed] * 10_000
        begun_ms = clock.boot_ms()

        with pytest.raises(StoragePermissionError, match="no right to put"):
            append(log)
        assert REFUSED_PUT_MS < clock.boot_ms() - begun_ms < 2 * REFUSED_PUT_MS

    def test_unless_an_earlier_one_may_still_land(self) -> None:
        files = ToldOtherwise()
        log = new_log(files, ManualClock())
        files.answers = [error_before, *[not_allowed] * 10_000]

        with pytest.raises(CommitOutcomeUnknownError, match="no right to put.*replay"):
            append(log)

    def test_a_slot_that_cannot_be_read_for_a_moment_is_read_again(self) -> None:
        files = ToldOtherwise()
        log = new_log(files)

        def unread(put: Put, path: str, data: Any) -> bool:
            put(path, data)
            files.fail_next("read")
            raise StorageError("the answer was lost")

        files.answers = [unread]

        assert append(log) == 10

    def test_a_slot_with_rubbish_in_it_is_unknown(self) -> None:
        files = ToldOtherwise()
        log = new_log(files)

        def rubbish(put: Put, path: str, data: Any) -> bool:
            put(path, bytes(data)[:-9])
            raise StorageError("the answer was lost")

        files.answers = [rubbish]

        with pytest.raises(CommitOutcomeUnknownError, match="cannot be read"):
            append(log)

    def test_a_local_put_fails_definitely(self, tmp_path: Path) -> None:
        calls = []

        class Full(LocalFiles):
            def put_new(self, path: str, data: Any, **_: Any) -> bool:
                calls.append(path)
                raise StorageFullError("no space left")

        new_log(LocalFiles(str(tmp_path)))
        log = MetadataLog(Full(str(tmp_path)), ManualClock())

        with pytest.raises(StorageFullError):
            append(log)
        assert len(calls) == LOCAL_PUT_TRIES


class TestReplacedLogDir:
    def test_a_commit_says_so_and_the_next_one_sees_the_new_one(self, tmp_path: Path) -> None:
        log = new_log(LocalFiles(str(tmp_path)))
        shutil.copytree(tmp_path / "__cluster_metadata", tmp_path / "copy")
        shutil.rmtree(tmp_path / "__cluster_metadata")
        (tmp_path / "copy").rename(tmp_path / "__cluster_metadata")

        assert log.current() is None
        with pytest.raises(MissingFileError, match="replaced by another directory"):
            append(log)
        assert append(log) == 10

    def test_one_that_is_gone_says_so(self, tmp_path: Path) -> None:
        log = new_log(LocalFiles(str(tmp_path)))
        shutil.rmtree(tmp_path / "__cluster_metadata")

        with pytest.raises(MissingFileError, match="deleted or replaced"):
            append(log)
        with pytest.raises(MissingFileError, match="no metadata log here"):
            append(log)

    def test_entries_that_were_deleted_are_not_written_upon(self, tmp_path: Path) -> None:
        log = new_log(LocalFiles(str(tmp_path)))
        log.files.delete(entry_path(1))

        with pytest.raises(CorruptMetadataError, match="version 0 of log .* restored or replaced"):
            append(log)
        assert log.files.stat(entry_path(2)) is None

    def test_nor_those_that_go_during_a_put(self, tmp_path: Path) -> None:
        """Goal: no entry is left behind a hole; a retry opens anew. Method: delete in a plan."""
        log = new_log(LocalFiles(str(tmp_path)))

        def plan(image: Image) -> Edit:
            log.files.delete(entry_path(1))
            return producing(segment())(image)

        with pytest.raises(MissingFileError, match="0001.json is gone"):
            log.commit(plan, TOPIC)
        assert log.files.stat(entry_path(2)) is None
        with pytest.raises(CorruptMetadataError, match="version 0 of log .* restored or replaced"):
            append(log)
        assert log.image().version == 0

    def test_a_restored_one_is_noticed_by_its_entries(self) -> None:
        files, clock = MemoryFiles(), ManualClock()
        log = new_log(files, clock)
        append(log)
        files.delete(entry_path(2))
        append(MetadataLog(files, clock))
        append(MetadataLog(files, clock))

        with pytest.raises(CorruptMetadataError, match="was restored or replaced"):
            log.image()

    def test_one_opened_anew_must_be_the_same(self) -> None:
        files, clock = MemoryFiles(), ManualClock()
        log = new_log(files, clock)
        files.delete_tree("__cluster_metadata")
        new_log(files, clock)
        clock.advance(log.keep_ms)

        with pytest.raises(CorruptMetadataError, match="where log .* was followed"):
            log.image()
        assert log.image().version == 1

    @pytest.mark.parametrize("reads", (1, 2, 3), ids=["entry 0", "entry 1", "entry 2"])
    def test_also_after_an_open_that_failed(self, reads: int) -> None:
        files, clock = MemoryFiles(), ManualClock()
        log = new_log(files, clock)
        files.delete_tree("__cluster_metadata")
        append(new_log(files, clock))
        clock.advance(log.keep_ms)
        files.fail_next("read", after=reads)
        with pytest.raises(StorageError, match="told to fail"):
            log.image()

        with pytest.raises(CorruptMetadataError, match="where log .* was followed"):
            log.image()
