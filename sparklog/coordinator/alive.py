"""Whether any gateway is alive, for other processes: a living gateway changes its sign of life.

A gateway that was killed stays among the brokers until another one declares it dead. The process
compares no clocks: it waits, and looks whether the signs of life change.
"""

from collections.abc import Iterable
from typing import Final

from sparklog.clock import Clock
from sparklog.storage.files import Files
from sparklog.storage.log_dir import DEAD_MS, sign_of_life

LOOK_MS: Final = 500
"""How long it rests between two looks."""


def one_lives(files: Files, clock: Clock, node_ids: Iterable[int]) -> bool:
    """Whether one of these gateways shows that it lives. To say no takes DEAD_MS."""
    seen = {node_id: sign_of_life(files, node_id) for node_id in node_ids}
    end_ms = clock.boot_ms() + DEAD_MS
    while seen and clock.boot_ms() < end_ms:
        clock.sleep_ms(LOOK_MS)
        if any(sign_of_life(files, node_id) != sign for node_id, sign in seen.items()):
            return True
    return False
