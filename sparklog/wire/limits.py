"""Limits of a gateway's connections: how many there may be, and how many bytes of requests.

A request that is larger than a connection's buffer is read only when there is room. Then it counts
with its whole size. It may be larger than the room that is left, so that a large request is not
refused for ever (SimpleMemoryPool).
"""

from collections import Counter
from collections.abc import Callable

from sparklog.wire.settings import Settings


class Limits:
    """What all connections of a gateway share. For the event loop's thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[Callable[[], None], None] = {}
        self.request_bytes = 0
        """Of requests that are read, wait, or are in progress."""

    @property
    def connections(self) -> int:
        """How many there are."""
        return self._by_address.total()

    def admit(self, address: str) -> bool:
        """Count a connection; False, and nothing counted, when there are too many."""
        settings = self._settings
        if self.connections >= settings.max_connections:
            return False
        if self._by_address[address] >= settings.max_connections_per_ip:
            return False
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Forget a connection."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    @property
    def is_full(self) -> bool:
        """Whether no further request may be read."""
        most = self._settings.queued_max_request_bytes
        return 0 <= most <= self.request_bytes

    def add(self, count: int) -> None:
        """Count received bytes (below zero: done with); call waiters while there is room."""
        self.request_bytes += count
        while count < 0 and self._waiting and not self.is_full:
            go_on = next(iter(self._waiting))
            del self._waiting[go_on]
            go_on()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when there is room again: once, however often it was asked for."""
        self._waiting[go_on] = None
