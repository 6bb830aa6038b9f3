"""Turns: had, waited for, done without; a directory that was replaced is noticed."""

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.metadata.log import PATIENT_TRIES, QUICK_MS, MetadataLog
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.image import Image
from sparklog.metadata.turn import LINE_PATIENCE_MS, PATIENCE_MS, STAY_MS, Turn
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.edits import segment
from tests.metadata_language import new_log, producing, topic_id


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    return tmp_path


def turn(folder: Path) -> Turn:
    return Turn(LocalFiles(str(folder)), "d", ManualClock())


class TestTaken:
    def test_one_after_the_other(self, folder: Path) -> None:
        first, second = turn(folder), turn(folder)
        with first.taken() as had:
            assert had
            with second.taken() as also:
                assert not also
        with second.taken() as had:
            assert had

    def test_patience_ends(self, folder: Path) -> None:
        clock = ManualClock()
        waiting = Turn(LocalFiles(str(folder)), "d", clock)
        with turn(folder).taken(), waiting.taken():
            assert PATIENCE_MS <= clock.boot_ms() < 2 * PATIENCE_MS

    def test_a_process_that_had_it_goes_before_those_in_line(self, folder: Path) -> None:
        clock = ManualClock()
        one = Turn(LocalFiles(str(folder)), "d", clock)
        with one.taken():
            pass
        line = os.open(folder, os.O_RDONLY)
        fcntl.flock(line, fcntl.LOCK_EX)
        with one.taken() as had:
            assert (had, clock.boot_ms()) == (True, 0)
        clock.advance(STAY_MS)

        with one.taken() as had:  # the first in line sleeps, but nobody has the turn
            assert had
            assert STAY_MS + LINE_PATIENCE_MS <= clock.boot_ms() < PATIENCE_MS
        clock.advance(STAY_MS)
        waited_ms = clock.boot_ms()
        with one.taken() as had:  # it does without the line for a while
            assert (had, clock.boot_ms()) == (True, waited_ms)
        os.close(line)

    def test_one_that_had_it_waits_if_another_has_it(self, folder: Path) -> None:
        first, second = turn(folder), turn(folder)
        with first.taken():
            pass
        with second.taken(), first.taken() as had:
            assert not had

    def test_one_that_waits_works_meanwhile(self, folder: Path) -> None:
        done: list[str] = []
        first, second = turn(folder), turn(folder)
        with first.taken(lambda: done.append("1")), second.taken(lambda: done.append("2")):
            assert set(done) == {"2"}

    def test_a_file_system_without_locks_costs_retries_only(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_locks(*_: object) -> None:
            raise OSError("no locks")

        monkeypatch.setattr(fcntl, "flock", no_locks)
        with turn(folder).taken() as had:
            assert not had

    def test_an_object_store_has_none(self) -> None:
        remote = Turn(MemoryFiles(), "d", ManualClock())
        with remote.taken() as had:
            assert not had
        assert not remote.is_replaced()

    def test_a_missing_directory_has_none(self, tmp_path: Path) -> None:
        with turn(tmp_path).taken() as had:
            assert not had

    def test_a_forked_process_has_a_lock_of_its_own(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = turn(folder)
        one.hold()
        before = one._handle
        monkeypatch.setattr(os, "getpid", lambda: -1)
        one.hold()

        assert one._handle is not before


class TestIfFree:
    def test_it_does_not_wait(self, folder: Path) -> None:
        clock = ManualClock()
        with turn(folder).taken(), Turn(LocalFiles(str(folder)), "d", clock).if_free() as had:
            assert (had, clock.boot_ms()) == (False, 0)

    def test_it_is_held_in_the_block_alone(self, folder: Path) -> None:
        first, second = turn(folder), turn(folder)
        with first.if_free() as had, second.if_free() as also:
            assert (had, also) == (True, False)
        with second.if_free() as had:
            assert had

    def test_one_that_was_refused_takes_it_from_nobody(self, folder: Path) -> None:
        first, second, third = turn(folder), turn(folder), turn(folder)
        with first.taken():
            with second.if_free():
                pass
            with third.if_free() as had:
                assert not had

    def test_without_locks_or_a_directory_it_is_always_free(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Turn(MemoryFiles(), "d", ManualClock()).if_free() as had:
            assert had

        def refused(_descriptor: int, _operation: int) -> None:
            raise OSError("no locks")

        monkeypatch.setattr(fcntl, "flock", refused)
        with turn(folder).if_free() as had, turn(folder).if_free() as also:
            assert (had, also) == (True, True)


class TestReplaced:
    def test_is_noticed_until_it_is_forgotten(self, folder: Path) -> None:
        one = turn(folder)
        one.hold()
        (folder / "d").rename(folder / "e")
        gone = one.is_replaced()
        (folder / "d").mkdir()

        assert (gone, one.is_replaced()) == (True, True)
        one.forget()
        one.hold()
        assert not one.is_replaced()


class TestCommitter:
    def test_one_that_waits_reads_what_others_commit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: the turn is not held for a long read. Method: note what is read before it."""
        files, clock, held = LocalFiles(str(tmp_path)), ManualClock(), ExitStack()
        log, other = new_log(files, clock), MetadataLog(files, ManualClock())
        plan, topics, read = producing(segment()), [topic_id(0)], list[int]()
        held.enter_context(Turn(files, ENTRIES, ManualClock()).taken())

        def others_commit(_: float) -> None:
            other.commit(plan, topics, patient=True)
            read.append(log.last_image.version)
            if len(read) == 3:
                held.close()

        monkeypatch.setattr(clock, "sleep_ms", others_commit)

        assert log.commit(plan, topics).image.version == 5
        assert read == [1, 2, 3]

    def test_it_is_behind_when_others_have_committed(self, tmp_path: Path) -> None:
        files = LocalFiles(str(tmp_path))
        log, other = new_log(files), MetadataLog(files, ManualClock())
        topics = [topic_id(0)]
        known = other.is_behind(topics), other.image(topics).version, other.is_behind(topics)
        log.commit(producing(segment()), topics)

        assert known == (True, 1, False)
        assert other.is_behind(topics)


class TestPatience:
    """Jobs plan without the turn."""

    def test_a_job_puts_nothing_while_another_has_the_turn(self, tmp_path: Path) -> None:
        files, clock = LocalFiles(str(tmp_path)), ManualClock()
        log, other = new_log(files, clock), MetadataLog(files, clock)
        versions: list[int] = []

        def plan(image: Image) -> Edit:
            versions.append(image.version)
            clock.advance(QUICK_MS + 1)
            return producing(segment())(image)

        with Turn(files, ENTRIES, clock).taken():
            log.commit(plan, [topic_id(0)], patient=True)

        assert versions == [1] * (PATIENT_TRIES + 1)  # the holder hangs: at last it goes on
        assert clock.boot_ms() >= PATIENCE_MS
        assert other.image().version == 2

    def test_a_job_has_the_turn_only_while_it_puts_its_entry(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.metadata.log.EDITS_BYTES_MAX", 10)
        clock, turns = ManualClock(), list[bool]()

        class Spied(LocalFiles):
            def put_new(self, path: str, *given: Any, **named: Any) -> bool:
                with Turn(LocalFiles(self.uri), ENTRIES, clock).if_free() as is_free:
                    turns.append(is_free)
                return super().put_new(path, *given, **named)

        new_log(LocalFiles(str(tmp_path)), clock)
        log = MetadataLog(Spied(str(tmp_path)), clock)
        log.commit(producing(segment()), [topic_id(0)], patient=True)

        assert turns == [True, False]  # the file of its edits, then its entry

    def test_a_job_that_lost_often_takes_its_turn(self, tmp_path: Path) -> None:
        turns, version = turns_of_a_loser(tmp_path, plan_ms=QUICK_MS + 1)

        assert turns == [True] * PATIENT_TRIES + [False]
        assert version == PATIENT_TRIES + 2

    def test_a_job_that_plans_quickly_takes_its_turn_when_it_lost_once(
        self, tmp_path: Path
    ) -> None:
        turns, version = turns_of_a_loser(tmp_path, plan_ms=QUICK_MS)

        assert turns == [True, False]
        assert version == 3


def turns_of_a_loser(tmp_path: Path, plan_ms: int) -> tuple[list[bool], int]:
    """A job that loses as often as the turn is free: whether it was, and the last version."""
    files, clock = LocalFiles(str(tmp_path)), ManualClock()
    log, other = new_log(files, clock), MetadataLog(files, ManualClock())
    turns: list[bool] = []

    def plan(image: Image) -> Edit:
        clock.advance(plan_ms)
        with Turn(files, ENTRIES, ManualClock()).taken() as is_free:
            turns.append(is_free)
        if is_free:
            other.commit(producing(segment()), [topic_id(0)])
        return producing(segment())(image)

    log.commit(plan, [topic_id(0)], patient=True)
    return turns, log.image().version
