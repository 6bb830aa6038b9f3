"""Limits of a gateway's connections: how many there may be, and how many bytes of requests.

A request that is larger than the read buffer is read only when there is room. From then on its
whole size counts. It may be larger than the room that is left; otherwise a large request might wait
for ever (SimpleMemoryPool).
"""

from collections import Counter
from collections.abc import Callable

from sparklog.wire.settings import Settings


class Limits:
    """The counts of all connections of a gateway. For the event loop's thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[Callable[[], None], None] = {}
        self.request_bytes = 0
        """The bytes of all requests that are being read, wait, or are in progress.

        A fetch that waits for records does not count, as in a broker (RequestChannel.Request): it
        keeps at most LONG_BYTES of its request. Otherwise waiting consumers would stop all clients.
        """

    @property
    def connections(self) -> int:
        """The number of connections."""
        return self._by_address.total()

    def admit(self, address: str) -> bool:
        """Count a new connection; return False, and do not count it, if there are too many."""
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
        """Count received bytes; a negative `count` frees bytes, and calls the waiting functions."""
        self.request_bytes += count
        while count < 0 and self._waiting and not self.is_full:
            go_on = next(iter(self._waiting))
            del self._waiting[go_on]
            go_on()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` once when there is room again, however often `wait` was called with it."""
        self._waiting[go_on] = None

    def forget(self, go_on: Callable[[], None]) -> None:
        """Do not call `go_on` any more."""
        self._waiting.pop(go_on, None)
