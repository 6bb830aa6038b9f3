"""The thread does its work in order, and ends with its owner, or with the process."""

import gc
import subprocess
import sys
import threading
from weakref import ref

from sparklog.group_commit.append_thread import AppendThread

UNCLOSED = """
from threading import Event
from sparklog.group_commit.append_thread import AppendThread
thread = AppendThread("w")
thread.do(lambda: Event().wait(0.1))
thread.do(lambda: print("done"))
"""


class Work:
    """Work that leaves nothing behind."""

    def __call__(self) -> None:
        pass


def names() -> set[str]:
    """The names of all threads."""
    return {one.name for one in threading.enumerate()}


def test_all_work_is_done_in_order() -> None:
    found: list[int] = []
    thread = AppendThread("in-order")
    for number in range(100):
        thread.do(lambda number=number: found.append(number))  # type: ignore[misc] # its number
    thread.close()

    assert found == list(range(100))
    assert "in-order" not in names()


def test_without_work_there_is_no_thread() -> None:
    thread = AppendThread("never")
    before = names()
    thread.close()

    assert "never" not in before


def test_done_work_is_not_kept() -> None:
    thread, work, is_done = AppendThread("forgets"), Work(), threading.Event()
    kept = ref(work)
    thread.do(work)
    del work
    thread.do(is_done.set)
    is_done.wait(30)
    gc.collect()

    assert kept() is None
    thread.close()


def test_a_process_that_ends_finishes_the_work() -> None:
    told = subprocess.run([sys.executable, "-c", UNCLOSED], check=True, capture_output=True)

    assert told.stdout == b"done\n"
