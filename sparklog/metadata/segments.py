"""The live segments of one partition, in the order of their offsets: immutable, cheap to grow.

    table   sorted rows: of runs, and of tails that were long enough
    tail    the segments appended since, as entries

Appending costs no copy: images share one tail, each knows how much of it is its own. Everything
else (a removal, a segment inside the log) makes the partition's rows anew.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

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

TAIL_MAX = 64
"""A longer tail becomes rows: entries take five times their memory."""

NO_ROWS = SEGMENT_SCHEMA.empty_table()
_NAMES = tuple(SEGMENT_SCHEMA.names)


class Rows(NamedTuple):
    """Rows [start, stop) of a table that many partitions share: a slice costs memory, this none."""

    whole: pa.Table
    start: int
    stop: int

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        if self.stop - self.start == self.whole.num_rows:
            return self.whole
        return self.whole.slice(self.start, self.stop - self.start)


class LiveSegments:
    """The live segments of one partition."""

    def __init__(self, rows: "Rows", tail: list[SegmentEntry], tail_count: int) -> None:
        self._rows = rows
        self._tail = tail
        self._tail_count = tail_count

    @classmethod
    def of(cls, table: pa.Table, start: int = 0, stop: int | None = None) -> "LiveSegments":
        """Return the segments of some rows of a table of SEGMENT_SCHEMA, sorted by base offset."""
        return cls(Rows(table, start, table.num_rows if stop is None else stop), [], 0)

    def __len__(self) -> int:
        return self._rows.stop - self._rows.start + self._tail_count

    @property
    def tail(self) -> Sequence[SegmentEntry]:
        """The segments that are not rows yet."""
        return self._tail[: self._tail_count]

    @cached_property
    def table(self) -> pa.Table:
        """The segments as a table of SEGMENT_SCHEMA, sorted by base offset."""
        rows = self._rows.table()
        if not self._tail_count:
            return rows
        return pa.concat_tables([rows, segments_table(self.tail)])

    @cached_property
    def by_offset(self) -> SegmentList:
        """The segments to search in."""
        rows, tail = self._rows.table(), self.tail
        count = rows.num_rows

        def numbers(name: str) -> NDArray[np.int64]:
            ends = np.array([getattr(entry, name) for entry in tail], np.int64)
            return np.concatenate((rows.column(name).to_numpy(), ends)) if count else ends

        def entry(slot: int) -> SegmentEntry:
            if slot >= count:
                return tail[slot - count]
            return segment_entry({name: rows.column(name)[slot].as_py() for name in _NAMES})

        return SegmentList(
            numbers("base_offset"), numbers("next_offset"), numbers("max_timestamp"), entry
        )

    def appended(self, entry: SegmentEntry) -> "LiveSegments":
        """Return these and one more, behind them."""
        tail = self._tail
        if len(tail) != self._tail_count:
            tail = list(self.tail)  # another image went on from here, too
        elif self._tail_count >= TAIL_MAX:
            table = self.table.combine_chunks()
            return LiveSegments(Rows(table, 0, table.num_rows), [entry], 1)
        tail.append(entry)
        return LiveSegments(self._rows, tail, self._tail_count + 1)

    def changed(
        self, without: Collection[SegmentKey], entries: Iterable[SegmentEntry]
    ) -> "LiveSegments":
        """Return these without some, and with others at their offsets."""
        table = self.table
        if without:
            table = table.filter(pc.invert(self._holds(table, without)))
        table = pa.concat_tables([table, segments_table(entries)]).combine_chunks()
        order = np.argsort(table.column("base_offset").to_numpy(), kind="stable")
        if (order[1:] < order[:-1]).any():
            table = table.take(pa.array(order))
        return LiveSegments.of(table)

    def find(self, keys: Collection[SegmentKey]) -> list[SegmentEntry]:
        """Return the segments with these keys, those there are, in offset order."""
        table = self.table
        return segment_entries(table.filter(self._holds(table, keys)))

    @staticmethod
    def _holds(table: pa.Table, keys: Collection[SegmentKey]) -> pa.Array:
        paths = pa.array(sorted({key.log_path for key in keys}))
        hit = pc.is_in(table.column("log_path"), paths).combine_chunks()
        if not any(key.log_position for key in keys):
            shared = {key for key in keys if key.log_path.startswith("__shared/")}
            if not shared:
                return hit
        wanted = {(key.log_path, key.log_position) for key in keys}
        at = np.flatnonzero(hit.to_numpy(zero_copy_only=False))
        places = zip(
            table.column("log_path").take(pa.array(at)).to_pylist(),
            table.column("log_position").take(pa.array(at)).to_pylist(),
            strict=True,
        )
        mask = np.zeros(table.num_rows, np.bool_)
        mask[at] = [(path, position or 0) in wanted for path, position in places]
        return pa.array(mask)
