"""Ends a service in time after a signal.

A service that does not serve yet ends at once. Later it has a time limit: no thread that waits for
the storage can be stopped, Python waits for all threads, and a storage that hangs takes minutes.
The limit loses nothing. Acknowledged records are durable. A record without an acknowledgement has
landed or not, as after a kill, and its client sends it again.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from threading import Timer
from typing import Final

GRACE_S: Final = 5.0
"""How long (s) a service may take after its last request: to close files, to end a process."""
log: Final = logging.getLogger("sparklog")


def end_at_once_on_signals() -> None:
    """Let SIGTERM and SIGINT end the process, until the service handles them itself.

    By default Ctrl-C would show a traceback, and a container's first process ignores SIGTERM.
    SIGHUP: see `hang_up_as_sigterm`.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    hang_up_as_sigterm()


def hang_up_as_sigterm() -> None:
    """Let SIGHUP do whatever SIGTERM does when it comes; by default it kills the process.

    It comes when a terminal is closed. Under nohup it is ignored, and stays so.
    """
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def end_within(shutdown_timeout_ms: int, *last: Callable[[], None]) -> None:
    """End the process GRACE_S after `shutdown_timeout_ms`, if it is still there then.

    It calls `last` before: they end what would outlive the process.
    """
    timer = Timer(shutdown_timeout_ms / 1000 + GRACE_S, _end, last)
    timer.daemon = True
    timer.start()


def _end(*last: Callable[[], None]) -> None:
    log.warning("the process ends although work is still under way")
    for one in last:
        one()
    os._exit(0)
