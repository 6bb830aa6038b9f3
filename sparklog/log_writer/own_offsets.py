"""Rows that have their own offsets, as in a copy of another log.

    rows of a writer       the offsets of a partition follow one another, in the order of the rows
    segments of a commit   the first segment of a partition begins at the log end offset, each other
                           segment at the end of the segment before

If gaps are allowed, as in a copy of a compacted topic, offsets only have to grow. A column `offset`
that is null in every row counts as no column: a SQL INSERT gives a null to each column that it does
not name.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.errors import InvalidRecordError, UnexpectedAppendOffsetError
from sparklog.log_writer.plan import WritePlan
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry
from sparklog.record.arrays import numbers_of

if TYPE_CHECKING:
    from sparklog.record.rows import RecordColumns

NO_OFFSET: Final = -1
_OFFSET_MAX: Final = 2**63 - 2
"""The largest offset of a record: the log end offset after it is the largest int64."""


class OwnOffsets:
    """Checks the offsets of one writer's rows, partition by partition.

    `plan` is the writer's; if the first rows have no offsets, it becomes a plan that keeps none.
    """

    def __init__(self, plan: WritePlan) -> None:
        self.plan = plan
        self._is_begun = False
        self._expected = np.full(plan.topic.num_partitions, NO_OFFSET, np.int64)

    def take(self, columns: "RecordColumns", partition: pa.Array | None) -> "RecordColumns":
        """Check the offsets of the next rows; return the rows, without the column if it is null.

        NO_OFFSET stands for null. The partitions exist: the caller has checked that. Raises
        UnexpectedAppendOffsetError for an offset that is missing or does not follow the one before,
        InvalidRecordError for a row with an offset and no partition.
        """
        if columns.offset is None or not len(columns):
            return columns
        has_offsets = bool((columns.offset != NO_OFFSET).any())
        if not self._is_begun and not has_offsets:
            options = replace(self.plan.options, keeps_offsets=False)
            self.plan = replace(self.plan, options=options)
        self._is_begun = True
        if self.plan.options.keeps_offsets:
            self._check(columns.offset, partition)
            return columns
        if has_offsets:
            raise mixed(self.plan)
        return replace(columns, offset=None)

    def _check(self, offset: NDArray[np.int64], partition: pa.Array | None) -> None:
        if partition is None or partition.null_count:
            raise InvalidRecordError(
                f"topic {self.plan.topic.name!r}: a record that brings an offset has no partition"
            )
        numbers = numbers_of(partition)
        order = np.argsort(numbers, kind="stable")
        numbers, offset = numbers[order], offset[order]
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lasts = np.flatnonzero(np.diff(numbers, append=-1))
        expected = np.empty_like(offset)
        expected[1:] = offset[:-1] + 1
        expected[firsts] = self._expected[numbers[firsts]]
        wrong = (offset < np.maximum(expected, 0)) | (offset > _OFFSET_MAX)
        if not self.plan.options.allow_offset_gaps:
            wrong |= (expected != NO_OFFSET) & (offset > expected)
        if wrong.any():
            slot = int(wrong.argmax())
            raise _unexpected(self.plan, *map(int, (numbers[slot], offset[slot], expected[slot])))
        self._expected[numbers[lasts]] = offset[lasts] + 1


def at_own_offsets(
    topic: TopicImage, plan: WritePlan, pending: Sequence[SegmentEntry]
) -> tuple[SegmentEntry, ...]:
    """Return `pending` in the order of its offsets.

    Raises UnexpectedAppendOffsetError if they do not continue the log, for instance after another
    producer's write.
    """
    ends: dict[int, int] = {}
    placed = sorted(pending, key=lambda entry: (entry.partition, entry.base_offset))
    for entry in placed:
        end = ends.get(entry.partition, topic.partition(entry.partition).log_end_offset)
        is_gap = entry.base_offset > end and not plan.options.allow_offset_gaps
        if entry.base_offset < end or is_gap:
            raise _unexpected(plan, entry.partition, entry.base_offset, end)
        ends[entry.partition] = entry.next_offset
    return tuple(placed)


def mixed(plan: WritePlan) -> UnexpectedAppendOffsetError:
    """Return the error of a write in which only some records have offsets of their own."""
    return UnexpectedAppendOffsetError(
        f"topic {plan.topic.name!r}: some records bring an offset and others have none (null): "
        f"give one to each record or to none",
        topic=plan.topic.name,
    )


def _unexpected(
    plan: WritePlan, partition: int, offset: int, expected: int
) -> UnexpectedAppendOffsetError:
    found = "no offset (null)" if offset == NO_OFFSET else f"offset {offset}"
    due = "the log end offset" if expected == NO_OFFSET else str(expected)
    gaps = "allowOffsetGaps=true keeps gaps, and " if NO_OFFSET < expected < offset else ""
    return UnexpectedAppendOffsetError(
        f"{plan.topic.name}-{partition}: a record has {found}, expected is {due}, because given "
        f"offsets must continue the log; {gaps}without the column offset the log gives them",
        topic=plan.topic.name,
        partition=partition,
        offset=offset,
        expected=expected,
    )
