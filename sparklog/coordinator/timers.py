"""Timers: a deadline for each key.

Postponing a deadline costs no time until the old deadline is due. The heap also has entries of
deadlines that were cancelled or moved. It is built anew when they are more than the others.
"""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
OLD_MAX: Final = 16
"""So many entries of other deadlines the heap may have in any case."""


class Timers(Generic[Key]):
    """The deadlines of keys, in ms by one clock."""

    def __init__(self) -> None:
        self._deadlines: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._numbers = count()

    def set(self, key: Key, deadline_ms: int) -> None:
        """Set the deadline of a key; it replaces an earlier one."""
        known = self._deadlines.get(key)
        self._deadlines[key] = deadline_ms
        if known is None or deadline_ms < known:
            heappush(self._heap, (deadline_ms, next(self._numbers), key))
            if len(self._heap) > 2 * len(self._deadlines) + OLD_MAX:
                self._heap = [(at, next(self._numbers), one) for one, at in self._deadlines.items()]
                heapify(self._heap)

    def cancel(self, key: Key) -> None:
        """Remove a key, if it has a deadline."""
        self._deadlines.pop(key, None)

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline; None if there is none."""
        while self._heap:
            at_ms, _, key = self._heap[0]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms == at_ms:
                return at_ms
            heappop(self._heap)
            if deadline_ms is not None and deadline_ms > at_ms:
                heappush(self._heap, (deadline_ms, next(self._numbers), key))
        return None

    def is_due(self, key: Key, now_ms: int) -> bool:
        """Return True if the deadline of a key is `now_ms` or earlier; False without a deadline."""
        return self._deadlines.get(key, now_ms + 1) <= now_ms

    def due(self, now_ms: int) -> Iterator[Key]:
        """Remove and yield the keys whose deadline has come, earliest first."""
        while (next_ms := self.next_ms) is not None and next_ms <= now_ms:
            _, _, key = heappop(self._heap)
            del self._deadlines[key]
            yield key
