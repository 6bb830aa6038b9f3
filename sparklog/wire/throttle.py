"""Throttle times: a client whose logs wait for the housekeeper sends less, as with Kafka's quotas.

Every commit adds a slice to the logs that it appends to, and the housekeeper merges the slices. If
batches come faster than it merges, slices pile up: they take memory in every process that follows
the metadata log, and all work with them gets slower. So a produce request gets a throttle time if
both are true:

    the housekeeper is late          its last round over all topics ended more than LATE_MS ago
    the request's logs have waited   they end with more than SLICES_MANY slices each, on average

Then the client waits (KIP-219), and its batches get larger meanwhile.
"""

import logging
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, TypeVar

from sparklog.metadata.state.image import PartitionLog

LATE_MS: Final = 10_000
"""A round takes a few seconds, and the pause before it two."""
LAG_MS: Final = 20
"""For each of so many milliseconds that the housekeeper is late, a client waits one."""
THROTTLE_MAX_MS: Final = 1_000
"""The longest throttle time: producing goes on even if no housekeeper works."""
SLICES_MANY: Final = 32
"""The housekeeper merges a tail with more slices: SLICES_MAX of `merging.tail`, which a gateway
does not load."""
SLICES_SEEN: Final = 2 * SLICES_MANY
"""How many segments at a log's end are looked at."""
LOGS_SEEN: Final = 16
"""The most logs of a request that are looked at."""
log: Final = logging.getLogger("sparklog.gateway")

T = TypeVar("T")


class Throttle:
    """The throttle times of one gateway. For the event loop's thread."""

    def __init__(self) -> None:
        self._late_ms = 0
        self._is_told = False

    @property
    def is_on(self) -> bool:
        """True while the housekeeper is late."""
        return self._late_ms > 0

    def note(self, lag_ms: int) -> None:
        """Note how long ago the housekeeper's last round ended."""
        self._late_ms = max(0, lag_ms - LATE_MS)
        self._is_told = self._is_told and self.is_on

    def time_ms(self, logs: Iterable[PartitionLog]) -> int:
        """Return the throttle time of a request that has appended to logs, or to these of them."""
        counts = [one.live.slices(SLICES_SEEN).total for one in logs]
        if not self.is_on or sum(counts) <= SLICES_MANY * len(counts):
            return 0
        if not self._is_told:
            self._is_told = True
            log.warning(
                "the housekeeper needs more than %d s for a round: producers to logs with more "
                "than %d slices get throttle times",
                LATE_MS // 1000,
                SLICES_MANY,
            )
        return min(self._late_ms // LAG_MS, THROTTLE_MAX_MS)


def some_of(places: Sequence[T]) -> Sequence[T]:
    """Return LOGS_SEEN of these, or a few less, with equal distances between them."""
    return places[:: max(1, ceil(len(places) / LOGS_SEEN))]
