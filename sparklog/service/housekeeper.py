"""A housekeeper: the process beside a service that folds, merges and compacts.

Threads of one process share Python's lock, and a busy thread gets half of it. So work that no
request waits for has a process of its own.

    service        calls `look` every LOOK_S. `look` starts the process when the metadata log has
                   grown, and starts it again when it has failed
    housekeeper    works until the log has not grown for IDLE_MS, or until its standard input ends:
                   the service has closed it, or has died. A gateway's housekeeper writes a byte to
                   its standard output after each round of work; so the gateway knows how late the
                   housekeeper is

A kill at any time loses nothing: a housekeeper makes all its work visible by commits.
"""

import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Final, cast

from sparklog.author import name_program
from sparklog.clock import Clock, SystemClock
from sparklog.errors import SparklogError
from sparklog.garbage import collect_as_a_service
from sparklog.service.logs import set_up_logs
from sparklog.service.memory import give_back, give_back_code, spare_memory

LOOK_S: Final = 1.0
"""How often a service calls `look`, in seconds."""
GROWTH: Final = 32
"""The process starts as soon as the log has grown by this many entries: fewer are little work."""
SMALL_GROWTH_MS: Final = 60_000
"""If the log has grown by fewer entries, the process starts this long after the first of them."""
RESTART_MS: Final = 5_000
"""The pause between a failure of the process and its next start; it doubles with each failure."""
RESTART_MAX_MS: Final = 5 * 60_000
"""The longest pause. After a process that has lived this long, the pause is RESTART_MS again."""
IDLE_MS: Final = 15 * 60_000
"""The process ends when the log has not grown for this long. By then all slices are merged: by
default `sparklog.shared.segment.max.age.ms` is ten minutes."""
TOLD_BYTES: Final = 64 * 1024
"""The size of a pipe's buffer, by Linux's default: one read empties it."""
GIVE_BACK_MS: Final = 60_000
"""How often the process gives unused memory back to the system."""
CLOSE_S: Final = 10.0
"""How long a service that ends waits for the process to finish its present commit, in seconds."""
NICE: Final = 5
"""Added to the nice value of the service. When all cores are busy, requests come first, but the
work still gets a share. With 10 it got too little: more slices came than were merged."""
ENVIRON: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "TOKIO_WORKER_THREADS": "1"}
"""Environment of the process, unless it is set: for less memory, and fewer threads to wake."""
log: Final = logging.getLogger("sparklog.service.housekeeper")


class Housekeeper:
    """The service's side: starts the process, and ends it."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        """`command` is the module that the process runs, and its arguments."""
        self._command = command
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._version: int | None = None
        self._grown_ms: int | None = None
        self._round_ms: int | None = None
        self._started_ms = self._not_before_ms = clock.boot_ms()
        self._pause_ms = RESTART_MS

    @property
    def pid(self) -> int | None:
        """The id of the process; None if none runs."""
        return None if self._process is None else self._process.pid

    @property
    def lag_ms(self) -> int:
        """The ms since the last round ended; before the first one, since the process was started.

        0 if there is no work for a process. Only `look` notes the end of a round.
        """
        return 0 if self._round_ms is None else self._clock.boot_ms() - self._round_ms

    def look(self, version: int | None) -> None:
        """Start the process if there is work for it.

        `version` is the newest known version of the log; None if none is known.
        """
        if self._process is not None:
            self._note_rounds(self._process)
            if self._process.poll() is None:
                self._version = self._version if version is None else version
                return
            self._ended(self._process)
        if version is not None and self._is_due(version):
            self._start(version)

    def close(self) -> None:
        """End the process, after its present commit. Blocks for CLOSE_S at most."""
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=CLOSE_S)  # closes its standard input
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.communicate()
        self._process = None

    def work_on(self, command: Sequence[str]) -> None:
        """Run this command from now on; a process that runs another one is killed.

        The new process begins after a pause, as after a failure.
        """
        if command != self._command:
            self._command = command
            self.kill()

    def kill(self) -> None:
        """Kill the process, from any thread: for a service that must end now."""
        process = self._process
        if process is not None:
            process.kill()

    def _note_rounds(self, process: "subprocess.Popen[bytes]") -> None:
        with suppress(BlockingIOError):  # no round has ended since the last look
            if os.read(_output_of(process), TOLD_BYTES):
                self._round_ms = self._clock.boot_ms()

    def _is_due(self, version: int) -> bool:
        """Return True if the log has grown by GROWTH entries, or first grew SMALL_GROWTH_MS ago.

        Growth counts from the last look at a running process, or from the very first look.
        """
        now_ms = self._clock.boot_ms()
        if self._version is None:
            self._version = version
        if version == self._version:
            return False
        if self._grown_ms is None:
            self._grown_ms = now_ms
        is_much = version - self._version >= GROWTH
        return now_ms >= self._not_before_ms and (
            is_much or now_ms - self._grown_ms >= SMALL_GROWTH_MS
        )

    def _start(self, version: int) -> None:
        self._version, self._grown_ms = version, None
        self._started_ms = self._clock.boot_ms()
        if self._round_ms is None:
            self._round_ms = self._started_ms
        try:
            # A process group of its own: Ctrl-C ends the service alone, which ends the process.
            self._process = subprocess.Popen(
                # -P: the working directory may have a module of the same name.
                [sys.executable, "-P", "-m", *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=ENVIRON | os.environ,
                process_group=0,
            )
        except OSError as error:  # no process or memory is left
            log.warning("the housekeeper could not be started: %s", error)
            self._try_again()
            return
        os.set_blocking(_output_of(self._process), False)
        with suppress(OSError):  # a sandbox forbids it: the process works all the same
            nice = os.getpriority(os.PRIO_PROCESS, 0) + NICE
            os.setpriority(os.PRIO_PROCESS, self._process.pid, nice)

    def _ended(self, process: "subprocess.Popen[bytes]") -> None:
        process.communicate()  # closes its standard input
        self._process = None
        if process.returncode:
            log.warning("the housekeeper ended with code %d", process.returncode)
            self._try_again()
        else:
            self._round_ms = None

    def _try_again(self) -> None:
        now_ms = self._clock.boot_ms()
        if now_ms - self._started_ms >= RESTART_MAX_MS:
            self._pause_ms = RESTART_MS
        self._not_before_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, RESTART_MAX_MS)
        self._version = -GROWTH  # so that any version is due


def _output_of(process: "subprocess.Popen[bytes]") -> int:
    """Return the file descriptor of a pipe from a process."""
    return cast("IO[bytes]", process.stdout).fileno()


def work_for(service: str, log_level: str, work: "Callable[[Service], None]") -> None:
    """Run the main function of the process of a service's housekeeper.

    Raises SystemExit if it fails.
    """
    name_program(f"{service} housekeeper")
    # Signals to all processes of the service, as systemd sends them, are the service's: it ends
    # this one when it ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    spare_memory()
    set_up_logs(log_level)
    collect_as_a_service()
    try:
        work(Service(SystemClock(), sys.stdin.fileno(), sys.stdout.fileno()))
    except SparklogError as error:
        log.error("the housekeeper cannot go on: %s", error)
        sys.exit(1)
    except Exception:
        log.exception("the housekeeper cannot go on")
        sys.exit(1)


class Service:
    """The housekeeper's side: talks to the service through standard input and output."""

    def __init__(self, clock: Clock, standard_input: int, standard_output: int) -> None:
        """Both are file descriptors. The service writes nothing to `standard_input`."""
        self._clock = clock
        self._input = standard_input
        self._output = standard_output
        os.set_blocking(standard_output, False)
        self._version = -1
        self._grown_ms = self._gave_back_ms = clock.boot_ms()

    def ended_round(self) -> None:
        """Tell the service that a round of the work has ended."""
        with suppress(BlockingIOError, BrokenPipeError):  # the service hangs, or has died
            os.write(self._output, b".")

    def waits(self, version: int, seconds: float) -> bool:
        """Wait for `seconds`; return whether the process should go on.

        `version` is the newest known version of the log. Returns at once when the service closes
        the standard input.
        """
        if version != self._version:
            self._version, self._grown_ms = version, self._clock.boot_ms()
        ended, _, _ = select.select([self._input], [], [], seconds)
        now_ms = self._clock.boot_ms()
        if now_ms - self._gave_back_ms >= GIVE_BACK_MS:
            self._gave_back_ms = now_ms
            give_back()
            give_back_code()
        return not ended and now_ms - self._grown_ms < IDLE_MS
