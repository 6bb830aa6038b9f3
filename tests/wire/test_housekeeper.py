"""A housekeeper runs while there is work, and as long as its service."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import LogDirError
from sparklog.service import housekeeper as h
from sparklog.service.housekeeper import (
    GIVE_BACK_MS,
    GROWTH,
    IDLE_MS,
    NICE,
    RESTART_MAX_MS,
    RESTART_MS,
    SMALL_GROWTH_MS,
    TOLD_BYTES,
    Housekeeper,
    Service,
)
from tests.failing import failing
from tests.waiting import until

WAITS = """
import os, pathlib, select
idle, ended = map(pathlib.Path(__file__).with_name, ("idle", "ended"))
while not select.select([0], [], [], 0.01)[0] and not idle.exists():
    if ended.exists():
        os.write(1, b".")
        ended.unlink()
"""
"""A program whose round ends when there is a file "ended"."""
DEAF = "import time; time.sleep(60)"


class World:
    """A service whose housekeeper runs a program."""

    def __init__(self, folder: Path) -> None:
        (folder / "program.py").write_text(WAITS)
        self.clock = ManualClock()
        self.housekeeper = Housekeeper(["program"], self.clock)

    def runs(self, version: int) -> bool:
        """Look; whether the process runs after that."""
        self.housekeeper.look(version)
        return self.housekeeper.pid is not None

    def end_with(self, number: int) -> None:
        """Kill the process, and wait until it has ended."""
        pid = self.housekeeper.pid
        assert pid is not None
        os.kill(pid, number)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = World(tmp_path)
    yield found
    found.housekeeper.close()


def no_process(*_: object, **__: object) -> None:
    """Stands for Popen where no process can be started."""
    raise OSError("no memory is left")


def started(world: World) -> World:
    assert not world.runs(0)
    assert world.runs(GROWTH)
    return world


class TestItStarts:
    def test_when_the_log_has_grown(self, world: World) -> None:
        assert not world.runs(7)
        assert not world.runs(7 + GROWTH - 1)
        assert world.runs(7 + GROWTH)

    def test_behind_its_service(self, world: World) -> None:
        pid = started(world).housekeeper.pid
        assert pid is not None
        nicer = os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0)
        assert nicer == NICE or os.getpriority(os.PRIO_PROCESS, pid) == 19

    def test_a_while_after_a_smaller_growth(self, world: World) -> None:
        assert not world.runs(7)
        assert not world.runs(8)
        world.clock.advance(SMALL_GROWTH_MS - 1)
        assert not world.runs(8)
        world.clock.advance(1)
        assert world.runs(8)

    def test_never_for_a_log_that_does_not_grow(self, world: World) -> None:
        for _ in range(3):
            assert not world.runs(7)
            world.clock.advance(IDLE_MS)

    def test_never_before_the_log_was_read(self, world: World) -> None:
        world.housekeeper.look(None)
        assert world.housekeeper.pid is None

    def test_and_a_log_that_is_not_known_for_a_while_counts_from_the_last_look(
        self, world: World, tmp_path: Path
    ) -> None:
        started(world)
        world.housekeeper.look(None)
        (tmp_path / "idle").touch()
        until(lambda: has_ended(world.housekeeper))
        (tmp_path / "idle").unlink()
        assert world.runs(2 * GROWTH)

    def test_and_its_end_is_seen_when_the_log_is_gone(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        started(world).end_with(signal.SIGKILL)
        world.housekeeper.look(None)
        assert world.housekeeper.pid is None
        assert caplog.messages == ["the housekeeper ended with code -9"]

    def test_and_works_on_another_command_when_it_is_told_to(
        self, world: World, tmp_path: Path
    ) -> None:
        (tmp_path / "other.py").write_text(WAITS)
        pid = started(world).housekeeper.pid
        world.housekeeper.work_on(["program"])
        assert world.runs(GROWTH)
        assert world.housekeeper.pid == pid
        world.housekeeper.work_on(["other"])
        until(lambda: not world.runs(GROWTH))
        world.clock.advance(RESTART_MS)
        assert world.runs(GROWTH)
        command = Path(f"/proc/{world.housekeeper.pid}/cmdline")
        until(lambda: b"\0other\0" in command.read_bytes())

    def test_once(self, world: World) -> None:
        pid = started(world).housekeeper.pid
        assert world.runs(10 * GROWTH)
        assert world.housekeeper.pid == pid


class TestItStartsAgain:
    def test_after_an_idle_time_when_the_log_has_grown(self, world: World, tmp_path: Path) -> None:
        started(world)
        assert world.runs(100)
        (tmp_path / "idle").touch()
        until(lambda: not world.runs(100))
        (tmp_path / "idle").unlink()
        assert not world.runs(100 + GROWTH - 1)
        assert world.runs(100 + GROWTH)

    def test_later_and_later_if_it_goes_on_to_fail(self, world: World) -> None:
        started(world)
        pauses = []
        for _ in range(9):
            world.end_with(signal.SIGKILL)
            begun_ms = world.clock.boot_ms()
            while not world.runs(GROWTH):
                world.clock.advance(RESTART_MS)
            pauses.append((world.clock.boot_ms() - begun_ms) // RESTART_MS)
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        world.clock.advance(RESTART_MAX_MS)
        world.end_with(signal.SIGKILL)
        assert not world.runs(GROWTH)
        world.clock.advance(RESTART_MS)
        assert world.runs(GROWTH)

    def test_after_a_failure_but_not_at_once(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        started(world).end_with(signal.SIGKILL)
        assert not world.runs(GROWTH)
        assert caplog.messages == ["the housekeeper ended with code -9"]
        world.clock.advance(RESTART_MS - 1)
        assert not world.runs(GROWTH)
        world.clock.advance(1)
        assert world.runs(GROWTH)

    def test_not_a_process_that_runs_but_may_not_be_made_nicer(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(os, "setpriority", failing(PermissionError, "a sandbox"))
        assert started(world).runs(GROWTH)
        assert not caplog.messages

    def test_when_no_process_could_be_started(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert not world.runs(0)
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", no_process)
            assert not world.runs(GROWTH)
        assert caplog.messages == ["the housekeeper could not be started: no memory is left"]
        assert not world.runs(GROWTH)
        world.clock.advance(RESTART_MS)
        assert world.runs(GROWTH)


class TestTheLag:
    def test_is_zero_before_there_is_work(self, world: World) -> None:
        assert not world.runs(0)
        world.clock.advance(1)
        assert world.housekeeper.lag_ms == 0

    def test_counts_from_the_start(self, world: World) -> None:
        started(world)
        world.clock.advance(7)
        assert world.runs(GROWTH)
        assert world.housekeeper.lag_ms == 7

    def test_counts_from_the_last_round(self, world: World, tmp_path: Path) -> None:
        started(world)
        world.clock.advance(7)
        end_round(world, tmp_path)
        world.clock.advance(1)
        assert world.housekeeper.lag_ms == 1

    def test_goes_on_over_a_failure(self, world: World) -> None:
        started(world)
        world.clock.advance(7)
        world.end_with(signal.SIGKILL)
        assert not world.runs(GROWTH)
        world.clock.advance(RESTART_MS)
        assert world.runs(GROWTH)
        assert world.housekeeper.lag_ms == 7 + RESTART_MS

    def test_counts_also_if_no_process_can_be_started(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(subprocess, "Popen", no_process)
        assert not world.runs(0)
        assert not world.runs(GROWTH)
        world.clock.advance(7)
        assert world.housekeeper.lag_ms == 7

    def test_is_zero_after_an_idle_time(self, world: World, tmp_path: Path) -> None:
        started(world)
        world.clock.advance(7)
        (tmp_path / "idle").touch()
        until(lambda: not world.runs(GROWTH))
        assert world.housekeeper.lag_ms == 0


def end_round(world: World, folder: Path) -> None:
    """Let the process end a round, and the service see it."""
    (folder / "ended").touch()
    until(lambda: world.runs(GROWTH) and world.housekeeper.lag_ms == 0)


class TestTheServiceEnds:
    def test_the_process_ends_with_it(self, world: World) -> None:
        pid = started(world).housekeeper.pid
        world.housekeeper.close()
        assert world.housekeeper.pid is None
        assert not Path(f"/proc/{pid}").exists()

    def test_a_process_that_does_not_end_is_killed(
        self, tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(h, "CLOSE_S", 0.01)
        (tmp_path / "program.py").write_text(DEAF)
        pid = started(world).housekeeper.pid
        world.housekeeper.close()
        assert not Path(f"/proc/{pid}").exists()

    def test_a_process_is_killed_while_the_service_waits_for_it(
        self, tmp_path: Path, world: World
    ) -> None:
        (tmp_path / "program.py").write_text(DEAF)
        world.housekeeper.kill()  # there is none yet
        process: Any = started(world).housekeeper._process
        closing = Thread(target=world.housekeeper.close)
        closing.start()
        until(lambda: process.stdin.closed)
        world.housekeeper.kill()
        closing.join()
        assert process.returncode == -signal.SIGKILL


class TestTheProcessWorks:
    @pytest.fixture
    def pipe(self) -> Iterator["Pipe"]:
        with Pipe() as found:
            yield found

    def test_until_the_service_has_gone(self, pipe: "Pipe") -> None:
        assert pipe.service.waits(1, 0)
        pipe.end()
        assert not pipe.service.waits(1, 60)

    def test_until_the_log_has_not_grown_for_long(self, pipe: "Pipe") -> None:
        assert pipe.service.waits(1, 0)
        pipe.clock.advance(IDLE_MS - 1)
        assert pipe.service.waits(1, 0)
        assert pipe.service.waits(2, 0)
        pipe.clock.advance(IDLE_MS - 1)
        assert pipe.service.waits(2, 0)
        pipe.clock.advance(1)
        assert not pipe.service.waits(2, 0)

    def test_and_tells_its_rounds(self, pipe: "Pipe") -> None:
        for _ in range(3):
            pipe.service.ended_round()
        assert pipe.told() == b"..."

    def test_and_does_not_wait_for_a_service_that_stands_still(self, pipe: "Pipe") -> None:
        for _ in range(TOLD_BYTES + 1):
            pipe.service.ended_round()
        assert len(pipe.told()) == TOLD_BYTES

    def test_and_does_not_fail_because_the_service_has_gone(self, pipe: "Pipe") -> None:
        pipe.end()
        pipe.service.ended_round()
        assert not pipe.service.waits(1, 60)

    def test_and_gives_memory_back(self, pipe: "Pipe", monkeypatch: pytest.MonkeyPatch) -> None:
        given: list[str] = []
        monkeypatch.setattr(h, "give_back", lambda: given.append("memory"))
        monkeypatch.setattr(h, "give_back_code", lambda: given.append("code"))
        assert pipe.service.waits(1, 0)
        assert not given
        pipe.clock.advance(GIVE_BACK_MS)
        for _ in range(2):
            assert pipe.service.waits(1, 0)
        assert given == ["memory", "code"]


class Pipe:
    """A service at the other ends of two pipes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        here, there = os.pipe()
        back, out = os.pipe()
        self._own, self._its = [here, out], [there, back]
        self.service = Service(self.clock, here, out)

    def __enter__(self) -> "Pipe":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for number in self._own:
            os.close(number)

    def told(self) -> bytes:
        """The bytes that the process has written to its standard output."""
        return os.read(self._its[1], 2 * TOLD_BYTES)

    def end(self) -> None:
        while self._its:
            os.close(self._its.pop())


@pytest.mark.parametrize(
    ("error", "told"), [(LogDirError("no log dir"), "no log dir"), (ValueError("a bug"), "a bug")]
)
def test_an_error_is_told_as_json(
    error: Exception,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(f"""
from sparklog.errors import LogDirError
from sparklog.service.housekeeper import work_for

def work(_):
    raise {error!r}

work_for("test", "info", work)
""")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    clock = ManualClock()
    found = Housekeeper(["program"], clock)
    found.look(0)
    found.look(GROWTH)
    until(lambda: has_ended(found))
    line = json.loads(capfd.readouterr().err.splitlines()[0])
    assert line["message"].startswith("the housekeeper cannot go on")
    assert told in line["message"] + line.get("trace", "")


def has_ended(housekeeper: Housekeeper) -> bool:
    housekeeper.look(None)
    return housekeeper.pid is None
