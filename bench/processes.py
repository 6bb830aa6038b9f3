"""This process and those that Spark started, and the memory they take. Reads /proc."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.02
TOTAL_POLL_S = 0.2
SETTLES_S = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Memory:
    """Bytes that one worker held at most: all resident ones, and those that are no file's pages."""

    resident: int = 0
    anonymous: int = 0

    def grow(self, resident: int, anonymous: int) -> None:
        """Take the larger of each."""
        self.resident = max(self.resident, resident)
        self.anonymous = max(self.anonymous, anonymous)


@dataclass(slots=True)
class Watch:
    """The largest worker while a block ran."""

    peak: Memory = field(default_factory=Memory)


@contextmanager
def watch_workers() -> Iterator[Watch]:
    """Polls the workers below this process fifty times a second until the block ends."""
    watch, done = Watch(), threading.Event()

    def poll() -> None:
        while not done.wait(POLL_S):
            for pid in worker_pids():
                watch.peak.grow(*memory_of(pid))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()


@dataclass(slots=True)
class Total:
    """Bytes that all processes together held at most, pages they share counted once."""

    bytes: int = 0


@contextmanager
def watch_all() -> Iterator[Total]:
    """Polls this process and all below it, the JVM too, five times a second until the end."""
    total, done = Total(), threading.Event()

    def poll() -> None:
        while not done.wait(TOTAL_POLL_S):
            total.bytes = max(total.bytes, sum(map(share_of, [os.getpid(), *pids_below()])))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield total
    finally:
        done.set()
        thread.join()


def share_of(pid: int) -> int:
    """Bytes of a process (Pss: an nth of a page that n share); 0 when it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def worker_pids() -> list[int]:
    """Processes below this one that run Python for Spark: each daemon and what it forked."""
    return [pid for pid in pids_below() if _is_python_worker(pid)]


def pids_below() -> list[int]:
    """All processes that this one started, and those that they did."""
    found_parents = dict(parents())
    children: dict[int, list[int]] = {}
    for pid, parent in found_parents.items():
        children.setdefault(parent, []).append(pid)
    below, found = [os.getpid()], []
    while below:
        for pid in children.get(below.pop(), []):
            below.append(pid)
            found.append(pid)
    return found


def parents() -> Iterator[tuple[int, int]]:
    """Yield (process, its parent) of all processes."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        yield int(path.parent.name), int(fields[1])


def end_workers() -> None:
    """End the workers below this process, and none of the daemons that they were forked from."""
    pids = set(worker_pids())
    for pid, parent in parents():
        if pid in pids and parent in pids:
            os.kill(pid, signal.SIGKILL)
    time.sleep(SETTLES_S)


def _is_python_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"pyspark" in command and b"java" not in command.split(b"\0")[0]


def memory_of(pid: int) -> tuple[int, int]:
    """(resident, anonymous) bytes; zeros for a process that has just ended."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    except OSError:
        return 0, 0
    return int(resident) * _PAGE, (int(resident) - int(shared)) * _PAGE
