"""An instance that stood still: the requests in its sockets may be out of date.

A client that gets no answer sends its request again, to another instance. The first request may
still wait in a socket of this instance. Most requests have an epoch or a sequence, which shows that
they are out of date. Steps of transactions of clients before KIP-890 have none. So an instance that
stood still closes its connections before it reads from them. A client that still waits connects
again, and repeats its request.

A look at the newest metadata may take as long while the storage is away. After such a look these
steps are not taken: they fail, and the client repeats them (`handlers.transactional`).
"""

from typing import Final

from sparklog.clock import Clock

STILL_MS: Final = 20_000
"""Less than the time after which clients repeat a request (request.timeout.ms: 30 seconds)."""


class Standstill:
    """Whether this process stood still, by the clock since the machine's start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen_ms = clock.boot_ms()
        """The time of the last call of `is_over`."""

    def is_over(self) -> bool:
        """Return whether the last call was longer than STILL_MS ago."""
        now_ms = self._clock.boot_ms()
        before_ms, self.seen_ms = self.seen_ms, now_ms
        return now_ms - before_ms > STILL_MS
