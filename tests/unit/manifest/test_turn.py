"""Taking turns: it helps, and nothing rests on it."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklog.clock import ManualClock
from sparklog.manifest.turn import PATIENCE_MS, my_turn
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.manifests import BusyClock


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    (tmp_path / "table").mkdir()
    return LocalFiles(str(tmp_path))


@pytest.fixture
def held(tmp_path: Path, files: LocalFiles) -> Iterator[int]:
    """Somebody has the turn, and keeps it until this is closed."""
    handle = os.open(tmp_path / "table", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield handle
    os.close(handle)


class TestMyTurn:
    def test_comes_at_once_when_nobody_has_it(self, files: LocalFiles) -> None:
        clock = ManualClock()
        start_ms = clock.now_ms()
        for _ in range(3):
            with my_turn(files, "table", clock) as had:
                assert had

        assert clock.now_ms() == start_ms

    def test_comes_when_it_is_given_up(self, files: LocalFiles, held: int) -> None:
        clock = BusyClock()
        clock.meanwhile = lambda: fcntl.flock(held, fcntl.LOCK_UN)

        with my_turn(files, "table", clock) as had:
            assert had

    def test_is_had_by_one_at_a_time(self, files: LocalFiles) -> None:
        clock = ManualClock()

        with my_turn(files, "table", clock) as first, my_turn(files, "table", clock) as second:
            assert (first, second) == (True, False)

    def test_is_done_without_when_it_does_not_come(self, files: LocalFiles, held: int) -> None:
        clock = ManualClock()
        start_ms = clock.now_ms()

        with my_turn(files, "table", clock) as had:
            assert not had
        assert clock.now_ms() - start_ms == PATIENCE_MS

    def test_is_done_without_where_there_are_no_locks(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def flock(_handle: int, _operation: int) -> None:
            raise OSError("no locks here")

        monkeypatch.setattr(fcntl, "flock", flock)

        with my_turn(files, "table", ManualClock()) as had:
            assert not had

    def test_is_done_without_where_there_is_no_table(self, files: LocalFiles) -> None:
        with my_turn(files, "absent", ManualClock()) as had:
            assert not had

    def test_is_done_without_in_an_object_store(self) -> None:
        with my_turn(MemoryFiles(), "table", ManualClock()) as had:
            assert not had
