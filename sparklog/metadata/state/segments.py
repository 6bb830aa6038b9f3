"""The live segments of one partition in offset order: immutable, and cheap to append to.

    rows    sorted pieces of tables: of runs, and of tails that had become long
    tail    the segments appended since, as entries

Appending copies the short tail, and sometimes joins pieces of similar size, so each segment is
copied O(log n) times. Any other change (a removal, a segment inside the log) is made later, when a
caller reads the rows: a produce needs only the log's end.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.log.segments import SegmentList
from sparklog.metadata.state.segment_tables import (
    SEGMENT_SCHEMA,
    segment_entries,
    segment_entry,
    segments_table,
)
from sparklog.model import SHARED_PREFIX, SegmentEntry, SegmentKey
from sparklog.record.arrays import array_of, empty_table, numbers_of, strings_of

TAIL_MAX: Final = 64
"""A longer tail becomes rows: an entry takes five times the memory of a row."""

CHUNKS_MAX: Final = 8
"""A table of more chunks is copied into a single chunk."""

WAITING_MAX: Final = 8
"""How many changes wait at most: each waiting change keeps the earlier rows in memory."""

NO_ROWS: Final = empty_table(SEGMENT_SCHEMA)
_NAMES: Final = tuple(SEGMENT_SCHEMA.names)

T = TypeVar("T")


class Slices(NamedTuple):
    """The slices of shared segments among some segments: how many, their bytes, the oldest's time.

    `oldest_ms` is the least `created_ms`; NEVER_MS without a slice.
    """

    total: int
    log_bytes: int
    oldest_ms: int


NEVER_MS: Final = 2**63 - 1


class Rows:
    """Rows [start, stop) of a table that many partitions share; cheaper than a slice of it."""

    __slots__ = ("_slices", "start", "stop", "whole")

    def __init__(self, whole: pa.Table, start: int, stop: int) -> None:
        self.whole, self.start, self.stop = whole, start, stop
        self._slices: Slices | None = None

    @property
    def length(self) -> int:
        """How many rows there are."""
        return self.stop - self.start

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        if self.length == self.whole.num_rows:
            return self.whole
        return self.whole.slice(self.start, self.length)

    def slices(self, count: int) -> Slices:
        """Return the slices among the last rows, at most `count`."""
        if count < self.length:
            return _slices_in(self.table()[self.length - count :])
        if self._slices is None:
            self._slices = _slices_in(self.table())
        return self._slices


def _slices_in(table: pa.Table) -> Slices:
    are_slices = numbers_of(pc.starts_with(table.column("log_path"), SHARED_PREFIX))
    sizes = numbers_of(table.column("log_bytes"))[are_slices]
    oldest = numbers_of(table.column("created_ms"))[are_slices].min(initial=NEVER_MS)
    return Slices(len(sizes), int(sizes.sum()), int(oldest))


class Later(Generic[T]):
    """A value that is computed at its first use."""

    __slots__ = ("_change", "_value")

    def __init__(self, value: T, change: "_Change | None" = None) -> None:
        self._value = value
        self._change = change

    @property
    def waiting(self) -> int:
        """How many changes have to be made to know the value."""
        change = self._change
        return 0 if change is None else 1 + change.before.waiting

    def get(self) -> T:
        """Return the value."""
        change = self._change
        if change is not None:
            change.make()
        return self._value

    def made(self, value: T) -> None:
        """Keep the value that the change has computed, and forget the change."""
        self._value, self._change = value, None


TakenOut = Later[Mapping[SegmentKey, SegmentEntry]]
"""The segments that a change takes out of a partition, by key; no slices, which go at once."""


class _Change:
    """A change not made yet. If two threads ask at once, both make it, with equal results."""

    __slots__ = ("_added", "_without", "before", "pieces", "taken_out")

    def __init__(
        self,
        before: "LiveSegments",
        without: Collection[SegmentKey],
        added: Collection[SegmentEntry],
    ) -> None:
        self.before = before
        self.pieces: Later[tuple[Rows, ...]] = Later((), self)
        self.taken_out: TakenOut = Later({}, self)
        self._without = without
        self._added = added

    def make(self) -> None:
        """Compute both values."""
        pieces, taken_out = self.before.swapped(self._without, self._added)
        self.pieces.made(pieces)
        self.taken_out.made({one.key: one for one in taken_out})


class Spans(NamedTuple):
    """The base and next offsets (int64) of segments, in offset order."""

    base_offset: NDArray[np.int64]
    next_offset: NDArray[np.int64]


NO_PIECES: Final[Later[tuple[Rows, ...]]] = Later(())


class LiveSegments:
    """The live segments of one partition."""

    def __init__(
        self, pieces: Later[tuple[Rows, ...]], tail: tuple[SegmentEntry, ...] = ()
    ) -> None:
        """`pieces` and then `tail` hold the segments in offset order; no piece is empty."""
        self._later = pieces
        self._tail = tail

    @classmethod
    def of(cls, table: pa.Table, start: int = 0, stop: int | None = None) -> "LiveSegments":
        """Return the segments in some rows of a table (SEGMENT_SCHEMA) sorted by base offset."""
        rows = Rows(table, start, table.num_rows if stop is None else stop)
        return cls(Later(_pieces_of(rows)))

    @property
    def waiting(self) -> int:
        """How many changes are not made yet."""
        return self._later.waiting

    @property
    def _pieces(self) -> tuple[Rows, ...]:
        return self._later.get()

    def __len__(self) -> int:
        return sum(rows.length for rows in self._pieces) + len(self._tail)

    @cached_property
    def table(self) -> pa.Table:
        """The segments as a table of SEGMENT_SCHEMA, sorted by base offset."""
        tables = [rows.table() for rows in self._pieces]
        if self._tail:
            tables.append(segments_table(self._tail))
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables) if tables else NO_ROWS

    def entries(self) -> list[SegmentEntry]:
        """Return the segments in offset order, even if they overlap."""
        return [*chain(*(segment_entries(rows.table()) for rows in self._pieces)), *self._tail]

    def last(self, count: int) -> list[SegmentEntry]:
        """Return the last segments, at most `count`, in offset order."""
        found = list(self._tail[-count:] if count else ())
        for rows in reversed(self._pieces):
            missing = count - len(found)
            if missing <= 0:
                break
            found[:0] = segment_entries(rows.table()[max(rows.length - missing, 0) :])
        return found

    def slices(self, count: int) -> Slices:
        """Return the slices among the last segments, at most `count`."""
        # A gateway asks for all partitions every second, so `Rows` keeps its numbers.
        tail = [one for one in self._tail[-count:] if one.is_shared] if count else []
        oldest_ms = min([one.created_ms for one in tail], default=NEVER_MS)
        found = [Slices(len(tail), sum([one.log_bytes for one in tail]), oldest_ms)]
        missing = count - len(self._tail)
        for rows in reversed(self._pieces):
            if missing <= 0:
                break
            found.append(rows.slices(missing))
            missing -= rows.length
        counts, sizes, times = zip(*found, strict=True)
        return Slices(sum(counts), sum(sizes), min(times))

    @cached_property
    def by_offset(self) -> SegmentList:
        """The segments as a list to search in."""
        rows = pa.concat_tables([NO_ROWS, *(one.table() for one in self._pieces)])
        tail = self._tail
        count: int = rows.num_rows

        def numbers(name: str) -> NDArray[np.int64]:
            ends = np.array([getattr(entry, name) for entry in tail], np.int64)
            return np.concatenate((numbers_of(rows.column(name)), ends)) if count else ends

        def entry(slot: int) -> SegmentEntry:
            if slot >= count:
                return tail[slot - count]
            return segment_entry({name: rows.column(name)[slot].as_py() for name in _NAMES})

        return SegmentList(
            numbers("base_offset"),
            numbers("next_offset"),
            numbers("max_timestamp"),
            numbers("log_bytes"),
            entry,
        )

    def appended(self, entries: Sequence[SegmentEntry]) -> "LiveSegments":
        """Return these segments with `entries` behind them."""
        tail = (*self._tail, *entries)
        if len(tail) <= TAIL_MAX:
            return LiveSegments(self._later, tail)
        pieces = [*self._pieces, Rows(segments_table(tail), 0, len(tail))]
        while len(pieces) > 1 and pieces[-2].length <= 2 * pieces[-1].length:
            last, before = pieces.pop(), pieces.pop()
            table = pa.concat_tables([before.table(), last.table()]).combine_chunks()
            pieces.append(Rows(table, 0, table.num_rows))
        return LiveSegments(Later(tuple(pieces)))

    def changed(
        self, without: Collection[SegmentKey], added: Collection[SegmentEntry]
    ) -> tuple["LiveSegments", TakenOut]:
        """Return the segments after a change, and the segments that it takes out."""
        if not self.waiting and len(self) <= TAIL_MAX:
            return self._few_changed(without, added)
        if self.waiting >= WAITING_MAX:
            self._later.get()
        change = _Change(self, without, added)
        return LiveSegments(change.pieces), change.taken_out

    def _few_changed(
        self, without: Collection[SegmentKey], added: Collection[SegmentEntry]
    ) -> tuple["LiveSegments", TakenOut]:
        """Make a change of a few segments at once, without a table: all of them become the tail."""
        gone = _places(without)
        kept, taken_out = list(added), {}
        for one in self.entries():
            if (one.log_path, one.log_position) not in gone:
                kept.append(one)
            elif not one.is_shared:
                taken_out[one.key] = one
        kept.sort(key=attrgetter("base_offset"))
        return LiveSegments(NO_PIECES).appended(kept), Later(taken_out)

    def swapped(
        self, without: Collection[SegmentKey], added: Collection[SegmentEntry]
    ) -> tuple[tuple[Rows, ...], list[SegmentEntry]]:
        """Make a change: return the pieces after it, and the segments taken out, without slices."""
        held = self._holds(_places(without))
        gone, rows = np.flatnonzero(held), segments_table(added)
        paths = self.table.column("log_path").take(array_of(gone))
        own = gone[~numbers_of(pc.starts_with(paths, SHARED_PREFIX))]
        taken_out = segment_entries(self.table.take(array_of(own)))
        if len(gone) and gone[-1] - gone[0] + 1 == len(gone):
            return self._spliced(int(gone[0]), int(gone[-1]) + 1, rows), taken_out
        table = self.table.filter(array_of(~held))
        table = pa.concat_tables([table, rows]).combine_chunks()
        order = np.argsort(numbers_of(table.column("base_offset")), kind="stable")
        if (order[1:] < order[:-1]).any():
            table = table.take(array_of(order))
        return _pieces_of(Rows(table, 0, table.num_rows)), taken_out

    def _spliced(self, start: int, stop: int, added: pa.Table) -> tuple[Rows, ...]:
        """Return the pieces with `added` in place of the rows [start, stop), mostly uncopied."""
        table = self.table
        if table.column(0).num_chunks > CHUNKS_MAX:
            table = table.combine_chunks()
        order = np.argsort(numbers_of(added.column("base_offset")), kind="stable")
        return _pieces_of(
            Rows(table, 0, start),
            Rows(added.take(array_of(order)), 0, len(order)),
            Rows(table, stop, table.num_rows),
        )

    def until(self, end_offset: int) -> "LiveSegments":
        """Return the segments that begin below an offset."""
        stop = int(self.by_offset.base_offset.searchsorted(end_offset))
        return self if stop == len(self) else LiveSegments.of(self.table, 0, stop)

    def find(self, keys: Collection[SegmentKey]) -> list[SegmentEntry]:
        """Return those segments with these keys that are there, in offset order."""
        return self.at(_places(keys))

    def at(self, places: Set[tuple[str, int]]) -> list[SegmentEntry]:
        """Return those segments at these paths and positions that are there, in offset order."""
        found = [one for one in self._tail if (one.log_path, one.log_position) in places]
        if len(found) == len(places) or not self._pieces:
            return found
        rows = LiveSegments(self._later)
        return [*segment_entries(rows.table.filter(array_of(rows._holds(places)))), *found]

    def spans(self, keys: Collection[SegmentKey]) -> Spans:
        """Return the offsets of those segments with these keys that are there; makes no entries."""
        places = _places(keys)
        tail = [one for one in self._tail if (one.log_path, one.log_position) in places]
        found = Spans(
            np.array([one.base_offset for one in tail], np.int64),
            np.array([one.next_offset for one in tail], np.int64),
        )
        if len(tail) == len(places) or not self._pieces:
            return found
        rows = LiveSegments(self._later)
        held, table = rows._holds(places), rows.table
        return Spans(
            np.concatenate((numbers_of(table.column("base_offset"))[held], found.base_offset)),
            np.concatenate((numbers_of(table.column("next_offset"))[held], found.next_offset)),
        )

    def _holds(self, places: Set[tuple[str, int]]) -> NDArray[np.bool_]:
        """Return, for each segment, whether it is at one of the places."""
        slots: dict[str, int] = {}
        wanted = np.array(
            [(slots.setdefault(path, len(slots)), position) for path, position in places], np.int64
        ).reshape(-1, 2)
        paths, known = self.table.column("log_path"), strings_of([*slots])
        found: NDArray[np.bool_] = numbers_of(pc.is_in(paths, known)).copy()
        at = np.flatnonzero(found)
        positions = numbers_of(self.table.column("log_position"))[at]
        # The path alone decides, except for slices of shared segments.
        if positions.any() or wanted[:, 1].any():
            # A pair as one number: the slot of its path, then the rank of its position.
            slot = numbers_of(pc.index_in(paths.take(array_of(at)), known)).astype(np.int64)
            ranks, rank_of = np.unique(wanted[:, 1], return_inverse=True)
            rank, count = np.searchsorted(ranks, positions).clip(max=len(ranks) - 1), len(ranks)
            is_wanted = np.isin(slot * count + rank, wanted[:, 0] * count + rank_of)
            found[at] = is_wanted & (ranks[rank] == positions)
        return found


def _places(keys: Iterable[SegmentKey]) -> set[tuple[str, int]]:
    """Return the path and the position of each segment; the partition is known."""
    return {(key.log_path, key.log_position) for key in keys}


def _pieces_of(*pieces: Rows) -> tuple[Rows, ...]:
    return tuple(rows for rows in pieces if rows.length)
