"""Signs of life: a living gateway rewrites a small file every few seconds.

    __gateways/<node id>.json      not a part of the log

The metadata log says which gateways exist. The signs of life show which of them have stopped
without saying so there. No clocks are compared: the caller waits, and looks whether a sign changes.
"""

from collections.abc import Iterable
from typing import Final

from sparklog.clock import Clock
from sparklog.errors import MissingFileError
from sparklog.log.names import GATEWAYS
from sparklog.storage.files import Files

DEAD_MS: Final = 10_000
"""A gateway whose sign of life has not changed for this long is dead."""
LOOK_MS: Final = 500
"""The time between two looks."""


def sign_path(node_id: int) -> str:
    """Return the path of a gateway's sign of life."""
    return f"{GATEWAYS}/{node_id}.json"


def sign_of_life(files: Files, node_id: int) -> bytes:
    """Return the bytes of a gateway's sign of life, which change while it runs; b"" without one."""
    try:
        return bytes(files.read(sign_path(node_id)))
    except MissingFileError:
        return b""


def one_lives(files: Files, clock: Clock, node_ids: Iterable[int]) -> bool:
    """Whether one of these gateways is alive. It takes up to DEAD_MS to return False."""
    seen = {node_id: sign_of_life(files, node_id) for node_id in node_ids}
    end_ms = clock.boot_ms() + DEAD_MS
    while seen and clock.boot_ms() < end_ms:
        clock.sleep_ms(LOOK_MS)
        if any(sign_of_life(files, node_id) != sign for node_id, sign in seen.items()):
            return True
    return False
