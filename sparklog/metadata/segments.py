"""The live segments of one partition, in the order of their offsets: immutable, cheap to grow.

    rows    sorted pieces of tables: of runs, and of tails that were long enough
    tail    the segments appended since, as entries

Appending copies the short tail, and now and then joins pieces of like size, so a segment is copied
O(log n) times. Everything else (a removal, a segment inside the log) makes the partition's rows
anew.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.log.segments import SegmentList
from sparklog.metadata.tables import (
    SEGMENT_SCHEMA,
    segment_entries,
    segment_entry,
    segments_table,
)
from sparklog.model import SegmentEntry, SegmentKey
from sparklog.record.arrays import array_of, empty_table, numbers_of, strings_of

TAIL_MAX: Final = 64
"""A longer tail becomes rows: entries take five times their memory."""

CHUNKS_MAX: Final = 8
"""A table of more chunks is copied into one."""

NO_ROWS: Final = empty_table(SEGMENT_SCHEMA)
_NAMES: Final = tuple(SEGMENT_SCHEMA.names)


class Rows(NamedTuple):
    """Rows [start, stop) of a table that many partitions share: a slice costs memory, this none."""

    whole: pa.Table
    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many rows there are."""
        return self.stop - self.start

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        if self.length == self.whole.num_rows:
            return self.whole
        return self.whole.slice(self.start, self.length)


class LiveSegments:
    """The live segments of one partition."""

    def __init__(self, pieces: tuple[Rows, ...], tail: tuple[SegmentEntry, ...] = ()) -> None:
        """`pieces` and then `tail` hold the segments in offset order; no piece is empty."""
        self._pieces = pieces
        self._tail = tail

    @classmethod
    def of(cls, table: pa.Table, start: int = 0, stop: int | None = None) -> "LiveSegments":
        """Return the segments of some rows of a table of SEGMENT_SCHEMA, sorted by base offset."""
        rows = Rows(table, start, table.num_rows if stop is None else stop)
        return cls((rows,) if rows.length else ())

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
        """Return the segments in offset order, also where they overlap."""
        return [*chain(*(segment_entries(rows.table()) for rows in self._pieces)), *self._tail]

    def last(self, count: int) -> list[SegmentEntry]:
        """Return the last ones, at most `count`, in offset order."""
        found = list(self._tail[-count:] if count else ())
        for rows in reversed(self._pieces):
            missing = count - len(found)
            if missing <= 0:
                break
            found[:0] = segment_entries(rows.table()[max(rows.length - missing, 0) :])
        return found

    @cached_property
    def by_offset(self) -> SegmentList:
        """The segments to search in."""
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
        """Return these and more, behind them."""
        tail = (*self._tail, *entries)
        if len(tail) <= TAIL_MAX:
            return LiveSegments(self._pieces, tail)
        pieces = [*self._pieces, Rows(segments_table(tail), 0, len(tail))]
        while len(pieces) > 1 and pieces[-2].length <= 2 * pieces[-1].length:
            last, before = pieces.pop(), pieces.pop()
            table = pa.concat_tables([before.table(), last.table()]).combine_chunks()
            pieces.append(Rows(table, 0, table.num_rows))
        return LiveSegments(tuple(pieces))

    def changed(
        self, without: Collection[SegmentKey], entries: Iterable[SegmentEntry]
    ) -> "LiveSegments":
        """Return these without some, and with others at their offsets."""
        held = self._holds(without)
        gone, added = np.flatnonzero(held), segments_table(entries)
        if len(gone) and gone[-1] - gone[0] + 1 == len(gone):
            return self._spliced(int(gone[0]), int(gone[-1]) + 1, added)
        table = self.table.filter(array_of(~held))
        table = pa.concat_tables([table, added]).combine_chunks()
        order = np.argsort(numbers_of(table.column("base_offset")), kind="stable")
        if (order[1:] < order[:-1]).any():
            table = table.take(array_of(order))
        return LiveSegments.of(table)

    def _spliced(self, start: int, stop: int, added: pa.Table) -> "LiveSegments":
        """Return these with others in place of rows that follow each other, mostly uncopied."""
        table = self.table
        if table.column(0).num_chunks > CHUNKS_MAX:
            table = table.combine_chunks()
        order = np.argsort(numbers_of(added.column("base_offset")), kind="stable")
        pieces = (
            Rows(table, 0, start),
            Rows(added.take(array_of(order)), 0, len(order)),
            Rows(table, stop, table.num_rows),
        )
        return LiveSegments(tuple(rows for rows in pieces if rows.length))

    def until(self, end_offset: int) -> "LiveSegments":
        """Return those that begin below an offset."""
        stop = int(self.by_offset.base_offset.searchsorted(end_offset))
        return self if stop == len(self) else LiveSegments.of(self.table, 0, stop)

    def find(self, keys: Collection[SegmentKey]) -> list[SegmentEntry]:
        """Return the segments with these keys, those there are, in offset order."""
        wanted = {(key.log_path, key.log_position) for key in keys}
        found = [one for one in self._tail if (one.log_path, one.log_position) in wanted]
        if not self._pieces:
            return found
        rows = LiveSegments(self._pieces)
        return [*segment_entries(rows.table.filter(array_of(rows._holds(keys)))), *found]

    def has(self, keys: Collection[SegmentKey]) -> bool:
        """Whether the segments with these keys, each given once, are all there."""
        return int(self._holds(keys).sum()) == len(keys)

    def _holds(self, keys: Collection[SegmentKey]) -> NDArray[np.bool_]:
        """Return of each segment whether it has one of the keys."""
        paths = self.table.column("log_path")
        found: NDArray[np.bool_] = numbers_of(
            pc.is_in(paths, strings_of([key.log_path for key in keys]))
        ).copy()
        at = np.flatnonzero(found)
        positions = numbers_of(self.table.column("log_position"))[at]
        # The path alone says it of all but slices of shared segments.
        if positions.any() or any(key.log_position for key in keys):
            wanted = {(key.log_path, key.log_position) for key in keys}
            places = zip(paths.take(array_of(at)).to_pylist(), positions.tolist(), strict=True)
            found[at] = [place in wanted for place in places]
        return found
