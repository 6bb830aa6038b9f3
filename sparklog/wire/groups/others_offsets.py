"""Offsets that others append to a partition which this instance owns, until its shard has them.

    own batch │ own batch │ others' offsets │ own batch │ …
                          └──── a gap ──────┘

The end of a transaction appends the offsets of its groups, whichever instance takes it. A gap is
read from the log and replayed. The shard has the own records behind a gap already, and they are
newer: a record of the gap with the same key is passed over.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sparklog.coordinator.records import Record, is_offset
from sparklog.errors import CoordinatorNotAvailableError, SparklogError

Read = Callable[[int, int], Awaitable[Sequence[Record]]]
"""Returns the records of the partition in [start, end)."""


@dataclass(slots=True)
class _Gap:
    """Offsets [start, end) of the log; `newer` has the keys of own records behind them."""

    start: int
    end: int
    newer: set[bytes]


class OthersOffsets:
    """The gaps of one partition, read one after another. For one event loop."""

    def __init__(
        self,
        read: Read,
        replay: Callable[[bytes, bytes | None], None],
        on_read: Callable[[], None],
        on_error: Callable[[SparklogError], None],
    ) -> None:
        """`on_read` is called after each gap; `on_error` if a gap cannot be taken: then end it."""
        self._read = read
        self._replay = replay
        self._on_read = on_read
        self._on_error = on_error
        self._gaps: deque[_Gap] = deque()
        self._reading: asyncio.Task[None] | None = None

    @property
    def first(self) -> int | None:
        """The first offset that the shard does not have yet; None if there is no gap."""
        return self._gaps[0].start if self._gaps else None

    def add(self, start: int, end: int, behind: Sequence[Record] = ()) -> None:
        """Begin to read a gap; `behind` are the own records behind it so far."""
        self._gaps.append(_Gap(start, end, set()))
        self.note(behind)
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._run())

    def note(self, own: Sequence[Record]) -> None:
        """Note own records that are appended behind the gaps."""
        for gap in self._gaps:
            gap.newer.update([one.key for one in own])

    def close(self) -> None:
        """Read no further."""
        if self._reading is not None:
            self._reading.cancel()

    async def _run(self) -> None:
        try:
            while self._gaps:
                gap = self._gaps[0]
                self._take(gap, await self._read(gap.start, gap.end))
                self._gaps.popleft()
                self._on_read()
        except Exception as error:  # noqa: BLE001 - a read fails in many ways
            self._on_error(CoordinatorNotAvailableError(f"others' offsets: {error!r}"))
        finally:
            self._reading = None

    def _take(self, gap: _Gap, records: Sequence[Record]) -> None:
        if not all(is_offset(one.key) for one in records):
            raise CoordinatorNotAvailableError(
                f"others have changed groups at the offsets [{gap.start}, {gap.end})"
            )
        for key, value in records:
            if key not in gap.newer:
                self._replay(key, value)
