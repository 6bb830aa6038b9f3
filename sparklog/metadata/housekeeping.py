"""Housekeeping after a commit: folds that are due, in a thread of their own.

A fold takes tens of milliseconds and more, so no commit waits for it. The thread ends with its
work; the interpreter waits for it at its end.
"""

from threading import Lock, Thread

from sparklog.errors import SparklogError
from sparklog.metadata.fold import fold, is_due
from sparklog.metadata.log import MetadataLog

_busy: set[int] = set()
_lock = Lock()


def keep_house(log: MetadataLog) -> None:
    """Fold in the background if it is this process's turn to, once at a time for one log."""
    image = log.read_last()
    if not is_due(image):
        return
    with _lock:
        if id(log) in _busy:
            return
        _busy.add(id(log))
    Thread(target=_keep, args=(log,), name="sparklog-fold").start()


def keep_house_now(log: MetadataLog) -> None:
    """Do the same in this thread: for tests that count steps."""
    if is_due(log.read_last()):
        fold(log)


def _keep(log: MetadataLog) -> None:
    try:
        fold(log)
    except SparklogError:
        pass  # nothing that is committed depends on it; the next one tries again
    finally:
        with _lock:
            _busy.discard(id(log))
