"""Finds out whether a gateway is alive: a living gateway rewrites its sign of life.

A gateway that was killed stays among the brokers until another gateway declares it dead. The caller
compares no clocks: it waits, and checks whether a sign of life changes.
"""

from collections.abc import Iterable
from typing import Final

from sparklog.clock import Clock
from sparklog.storage.files import Files
from sparklog.storage.log_dir import DEAD_MS, sign_of_life

LOOK_MS: Final = 500
"""The time between two looks."""


def one_lives(files: Files, clock: Clock, node_ids: Iterable[int]) -> bool:
    """Whether one of these gateways is alive. It takes up to DEAD_MS to return False."""
    seen = {node_id: sign_of_life(files, node_id) for node_id in node_ids}
    end_ms = clock.boot_ms() + DEAD_MS
    while seen and clock.boot_ms() < end_ms:
        clock.sleep_ms(LOOK_MS)
        if any(sign_of_life(files, node_id) != sign for node_id, sign in seen.items()):
            return True
    return False
