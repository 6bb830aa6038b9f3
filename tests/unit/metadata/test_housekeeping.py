"""Folding in the background: nobody waits for it, nobody is harmed by it."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import StorageError
from sparklog.metadata import follow
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.upkeep import fold as f
from sparklog.metadata.upkeep import housekeeping as k
from sparklog.metadata.upkeep.clean import Cleaned, clean
from sparklog.metadata.upkeep.housekeeping import keep_house
from sparklog.storage.local import LocalFiles
from tests.metadata_logs import TOPIC_ID, World, appended, keep_house_now, read, segment, wait

ROOT = Path(__file__).parents[3]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(f, "FOLD_EVERY", 4)
    return World(LocalFiles(str(tmp_path)))


def due(world: World) -> None:
    """Commit until a fold is due, and wait for it."""
    world.produce(1)
    while not f.is_due(world.log.image(), 0):
        world.produce(1)
    keep_house(world.log)
    wait(world.log)


class TestKeepHouse:
    def test_folds_when_it_is_due(self, world: World) -> None:
        world.produce(2)
        keep_house(world.log)
        assert world.log not in k._houses
        world.produce(1)
        keep_house(world.log)
        wait(world.log)

        assert world.fresh().image().fold.cover == 4
        assert k._houses[world.log].thread is None

    def test_once_at_a_time(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        go, calls = Event(), []

        def slow(log: MetadataLog) -> None:
            calls.append(current_thread().name)
            go.wait(30)

        monkeypatch.setattr(k, "fold", slow)
        world.produce(3)
        keep_house(world.log)
        keep_house(world.log)
        go.set()
        wait(world.log)

        assert calls == ["sparklog-fold"]

    @pytest.mark.parametrize("error", [StorageError("no"), ValueError("no")])
    def test_a_failure_is_logged_and_a_later_commit_tries_again(
        self,
        world: World,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        error: Exception,
    ) -> None:
        def fail(_: MetadataLog) -> None:
            calls.append(1)
            raise error

        calls: list[int] = []
        caplog.set_level("INFO")
        monkeypatch.setattr(k, "fold", fail)
        world.produce(3)
        for _ in range(3):
            keep_house(world.log)
            wait(world.log)
        assert len(calls) == 1
        assert caplog.messages == [f"a fold failed; it is tried again later: {error}"]
        # A trace is for bugs.
        assert bool(caplog.records[0].exc_info) == (not isinstance(error, StorageError))
        world.clock.advance(k.FOLD_RETRY_MS)
        keep_house(world.log)
        wait(world.log)

        assert len(calls) == 2
        assert [one.levelname for one in caplog.records] == ["INFO", "WARNING"]

    def test_cleans_now_and_then(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[int] = []
        monkeypatch.setattr(k, "clean", lambda _: calls.append(1))
        for _ in range(2):
            due(world)
        assert len(calls) == 1
        world.clock.advance(world.log.keep_ms)
        due(world)

        assert len(calls) == 2

    def test_goes_on_cleaning_with_the_next_fold_while_files_are_left(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A log dir gets more entries in a minute than one cleaning deletes."""
        left: list[int] = []

        def clean_few(log: MetadataLog) -> Cleaned | None:
            done = clean(log, at_most=3)
            left.append(done.left if done else 0)
            return done

        monkeypatch.setattr(k, "clean", clean_few)
        due(world)
        due(world)
        world.age()
        for _ in range(5):
            due(world)

        assert left == [0, 9, 6, 3, 0]

    def test_no_thread_is_no_harm(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(_: Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(Thread, "start", refuse)
        world.produce(3)
        keep_house(world.log)

        assert k._houses[world.log].thread is None

    def test_that_of_crash_tests_folds_when_it_is_due(self, world: World) -> None:
        keep_house_now(world.log)
        assert world.fresh().image().fold.cover == -1
        world.produce(3)
        keep_house_now(world.log)

        assert world.fresh().image().fold.cover == 4

    def test_while_others_commit(self, world: World) -> None:
        """Commits go on in this thread, each fold in another one."""
        for number in range(60):
            entry = segment(number % 4, 1000 + number)
            plan = partial(appended, entry=entry)
            world.log.commit(plan, [TOPIC_ID], housekeeping=False)
            keep_house(world.log)
        wait(world.log)

        assert world.log.image().fold.cover > 0
        assert read(world.fresh()) == read(world.log)


class TestTheEndOfAProcess:
    def test_the_end_of_the_process_waits(self, world: World) -> None:
        done: list[bool] = []
        idle = world.fresh()
        k._houses[idle] = k._House()
        house = k._houses[world.log] = k._House()
        house.thread = Thread(target=lambda: done.append(True))
        house.thread.start()
        k.wait_for_folds()

        assert done == [True]

    def test_a_fold_may_end_while_it_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        thread = Thread(target=list)
        thread.start()
        answers = [None, thread]
        house = type("House", (), {"thread": property(lambda _: answers.pop())})()
        monkeypatch.setattr(k, "_houses", {"log": house})
        k.wait_for_folds()

        assert answers == [None]

    def test_is_clean_and_soon(self, tmp_path: Path) -> None:
        program = f"""
from sparklog.storage.local import LocalFiles
from sparklog.metadata.upkeep import fold, housekeeping
from tests.metadata_logs import World
fold.FOLD_EVERY = 4
world = World(LocalFiles({str(tmp_path)!r}))
world.produce(3)
housekeeping.keep_house(world.log)
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, b"")
        log = MetadataLog(LocalFiles(str(tmp_path)), ManualClock())
        assert log.image().fold.cover in {-1, 4}


class TestAFork:
    def test_has_locks_of_its_own(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """The parent forks while its folding thread holds the lock of the log."""
        held, go = Event(), Event()

        def hold(log: MetadataLog) -> None:
            with log._reading, k._lock:
                held.set()
                go.wait(30)

        monkeypatch.setattr(k, "fold", hold)
        world.produce(3)
        keep_house(world.log)
        held.wait(30)
        child = os.fork()
        if not child:
            os._exit(0 if _works(world) else 1)  # pragma: no cover - in the child
        _, status = os.waitpid(child, 0)
        go.set()
        wait(world.log)

        assert os.waitstatus_to_exitcode(status) == 0

    def test_of_a_fork_has_them_too(self, world: World) -> None:
        """Goal: no lock of an ancestor stops a child. Method: fork twice, each lock held; no fold.

        The log was never due for a fold, so housekeeping does not know it.
        """
        assert _forked(world, depth=2) == 0

    def test_forgets_the_parents_threads(self, world: World) -> None:
        world.produce(3)
        keep_house(world.log)
        wait(world.log)
        reading = world.log._reading
        k._begin_anew()
        follow._begin_anew()

        assert world.log not in k._houses
        assert world.log._reading is not reading
        assert read(world.log) == read(world.fresh())


def _works(world: World) -> bool:  # pragma: no cover - in the child
    with k._lock:
        return world.log.image().version == 4


def _forked(world: World, depth: int) -> int:
    """Fork while a thread holds the log's lock; return 0 when the children can read."""
    held, go = Event(), Event()

    def hold() -> None:
        with world.log._reading:
            held.set()
            go.wait(30)

    thread = Thread(target=hold, daemon=True)
    thread.start()
    held.wait(30)
    child = os.fork()
    if not child:  # pragma: no cover - in the child
        signal.alarm(10)
        is_read = world.log.image().version == 1
        os._exit(_forked(world, depth - 1) if is_read and depth > 1 else not is_read)
    _, status = os.waitpid(child, 0)
    go.set()
    thread.join()
    return os.waitstatus_to_exitcode(status)
