"""An instance that stood still: requests that it finds then may be of clients that have gone on.

A client that gets no answer sends its request again, to another instance. The first one may lie in
a socket of this instance all the while. Epochs and sequences tell most of them; what an older
client's transaction asks for, nothing tells but the connection. So connections are closed before
anything is read from them; a client that still waits connects anew and asks again.
"""

from typing import Final

from sparklog.clock import Clock

STILL_MS: Final = 20_000
"""Clients wait longer for an answer: request.timeout.ms is 30 seconds by default."""


class Standstill:
    """Whether this process stood still, by the clock since the machine's start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen_ms = clock.boot_ms()
        """When somebody looked last."""

    def is_over(self) -> bool:
        """Return whether nobody has looked for longer than STILL_MS; this is a look."""
        now_ms = self._clock.boot_ms()
        before_ms, self.seen_ms = self.seen_ms, now_ms
        return now_ms - before_ms > STILL_MS
