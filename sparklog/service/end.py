"""Ends a service in time, whatever its threads wait for.

A thread that waits for the storage cannot be stopped, and Python waits for all threads before it
ends: for minutes if the storage does not answer. What was acknowledged is durable by then. What was
not acknowledged is as after a kill: it has landed or not, and its client sends it again.
"""

import logging
import os
from threading import Timer
from typing import Final

GRACE_S: Final = 5.0
"""How long (s) a service may take after its last request: to close files, to end a process."""
log: Final = logging.getLogger("sparklog")


def end_within(shutdown_timeout_ms: int) -> None:
    """End the process GRACE_S after `shutdown_timeout_ms`, if it is still there then."""
    timer = Timer(shutdown_timeout_ms / 1000 + GRACE_S, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    log.warning("the process ends, although threads still wait for the storage")
    os._exit(0)
