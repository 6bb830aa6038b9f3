"""The Python workers that Spark started, and the memory they take. Reads /proc."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.02
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


def worker_pids() -> list[int]:
    """Processes below this one that run Python for Spark: each daemon and what it forked."""
    parents = dict(_parents())
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    below, found = [os.getpid()], []
    while below:
        for pid in children.get(below.pop(), []):
            below.append(pid)
            if _is_python_worker(pid):
                found.append(pid)
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        yield int(path.parent.name), int(fields[1])


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
