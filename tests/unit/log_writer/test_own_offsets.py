"""Rows that bring their own offsets: kept where they continue the log, else refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.clock import ManualClock
from sparklog.config import TopicConfig
from sparklog.errors import InvalidRecordError, UnexpectedAppendOffsetError
from sparklog.log_reader import TopicReader
from sparklog.log_writer import (
    NO_OFFSET,
    PRODUCE,
    TopicWriter,
    WriteOptions,
    WritePlan,
    commit_write,
    plan_write,
    write_of,
)
from sparklog.metadata.catalog import Catalog, Landed
from sparklog.model import OffsetRange, SegmentEntry, TopicDescription
from sparklog.record.rows import RecordColumns
from sparklog.storage.memory import MemoryFiles
from tests.logs import append, catalog, columns, new_topic, rows
from tests.partitions import catalog_of

LARGEST = 2**63 - 1
PARTITIONS = 3
TOPIC = TopicDescription("t", "0123456789abcdefghijkl", PARTITIONS, {}, 0)

Given = Sequence[tuple[int | None, int]]
"""(partition, offset) of each row, in order."""


def plan(*, gaps: bool = False) -> WritePlan:
    return WritePlan(
        topic=TOPIC,
        config=TopicConfig.parse({}),
        now_ms=0,
        options=WriteOptions(keeps_offsets=True, allow_offset_gaps=gaps),
    )


def records(given: Given) -> tuple[RecordColumns, pa.Array]:
    """Records whose value is their offset, and the column `partition`."""
    offsets = [offset for _, offset in given]
    plain = columns(offsets)
    own = RecordColumns(plain.key, plain.value, plain.timestamp, None, np.array(offsets, np.int64))
    return own, pa.array([partition for partition, _ in given], pa.int32())


def written(*parts: Given, gaps: bool = False) -> list[SegmentEntry]:
    """The segments of one writer that gets these rows, part by part."""
    writer = TopicWriter(MemoryFiles(), plan(gaps=gaps), ManualClock(), seed=0)
    for part in parts:
        writer.write(*records(part))
    return writer.close()


def spans(entries: Sequence[SegmentEntry]) -> list[tuple[int, int, int, int]]:
    return [
        (one.partition, one.file_base_offset, one.base_offset, one.next_offset) for one in entries
    ]


class TestWriter:
    def test_makes_sealed_segments(self) -> None:
        entries = written([(0, 7), (2, 100), (0, 8)], [(2, 101), (0, 9)])

        assert spans(entries) == [(0, 7, 7, 10), (2, 100, 100, 102)]

    def test_keeps_gaps_where_they_are_allowed(self) -> None:
        entries = written([(1, 7), (1, 9)], [(1, 2**40)], gaps=True)

        assert spans(entries) == [(1, 7, 7, 10), (1, 2**40, 2**40, 2**40 + 1)]
        assert [entry.record_count for entry in entries] == [2, 1]

    @pytest.mark.parametrize(
        ("parts", "found", "expected"),
        [
            ([[(1, 7), (1, 9)]], 9, 8),
            ([[(1, 7)], [(1, 9)]], 9, 8),
            ([[(1, 7), (1, 7)]], 7, 8),
            ([[(1, 7), (1, 6)]], 6, 8),
            ([[(0, 7), (1, 7), (0, 8), (1, 7)]], 7, 8),
            ([[(1, 7)], [(1, NO_OFFSET)]], NO_OFFSET, 8),
            ([[(1, -5)]], -5, NO_OFFSET),
            ([[(1, LARGEST)]], LARGEST, NO_OFFSET),
        ],
    )
    def test_refuses_what_does_not_follow(
        self, parts: list[Given], found: int, expected: int
    ) -> None:
        with pytest.raises(UnexpectedAppendOffsetError, match="t-1: a record has") as caught:
            written(*parts)
        error: Any = caught.value
        assert (error.topic, error.partition) == ("t", 1)
        assert (error.offset, error.expected) == (found, expected)

    def test_refuses_what_does_not_grow_gaps_or_not(self) -> None:
        for offset in (7, 6, NO_OFFSET):
            with pytest.raises(UnexpectedAppendOffsetError, match="expected is 8,"):
                written([(1, 7), (1, offset)], gaps=True)

    def test_says_what_would_be_allowed(self) -> None:
        with pytest.raises(
            UnexpectedAppendOffsetError,
            match=r"offset 9, expected is 8, .* allowOffsetGaps=true keeps gaps, and without",
        ):
            written([(1, 7), (1, 9)])
        with pytest.raises(
            UnexpectedAppendOffsetError, match=r"no offset \(null\), expected is 8, .* log; without"
        ):
            written([(1, 7), (1, NO_OFFSET)])
        with pytest.raises(UnexpectedAppendOffsetError, match="-2, expected is the log end offset"):
            written([(1, -2)])

    @pytest.mark.parametrize("partition", [None, pa.array([1, None], pa.int32())])
    def test_asks_for_partitions(self, partition: pa.Array | None) -> None:
        writer = TopicWriter(MemoryFiles(), plan(), ManualClock(), seed=0)
        own, _ = records([(1, 7), (1, 8)])

        with pytest.raises(InvalidRecordError, match="that brings an offset has no partition"):
            writer.write(own, partition)

    def test_takes_no_rows_at_all(self) -> None:
        assert written([], [(0, 3)], []) != []
        assert written([]) == []


class TestRowsWithoutAny:
    """A SQL INSERT gives a null to every column that it does not name."""

    def writer(self, *parts: Given) -> TopicWriter:
        writer = TopicWriter(MemoryFiles(), plan(), ManualClock(), seed=0)
        for part in parts:
            writer.write(*records(part))
        return writer

    def test_are_numbered_by_the_log(self) -> None:
        writer = self.writer([(0, NO_OFFSET)] * 3, [], [(0, NO_OFFSET)] * 2)

        assert not writer.plan.options.keeps_offsets
        assert spans(writer.close()) == [(0, 0, 0, 5)]

    def test_are_refused_among_others(self) -> None:
        for part in ([(0, 7)], [(1, NO_OFFSET), (1, 0)]):
            with pytest.raises(UnexpectedAppendOffsetError, match="some records bring an offset"):
                self.writer([(0, NO_OFFSET)], part)

    def test_leave_the_plan_to_others(self) -> None:
        assert self.writer([], [(0, 7)]).plan.options.keeps_offsets
        assert self.writer().plan.options.keeps_offsets


class TestCommit:
    def commit(self, found: Catalog, *tasks: Given, gaps: bool = False, **write: Any) -> Landed:
        pending = [entry for task in tasks for entry in written(task, gaps=gaps)]
        one = write_of(plan(gaps=gaps), pending, **write)
        return found.commit_all([one], operation=PRODUCE)[0]

    def test_keeps_the_offsets_of_all_tasks_in_whatever_order(self) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        first = self.commit(found, [(0, 2), (0, 3)], [(0, 0), (0, 1), (1, 0)])
        second = self.commit(found, [(0, 4), (1, 1)])

        assert first.ranges == (OffsetRange(0, 0, 4), OffsetRange(1, 0, 1))
        assert second.ranges == (OffsetRange(0, 4, 5), OffsetRange(1, 1, 2))
        assert [entry.shift for entry in found.topic_image(TOPIC).segments(0)] == [0, 0, 0]

    @pytest.mark.parametrize(
        ("tasks", "offset", "expected"),
        [
            ([[(0, 1)]], 1, 2),
            ([[(0, 3)]], 3, 2),
            ([[(0, 2)], [(0, 2)]], 2, 3),
            ([[(0, 2), (0, 3)], [(0, 3), (0, 4)]], 3, 4),
            ([[(0, 2)], [(0, 4)]], 4, 3),
            ([[(1, 0)], [(0, 0)]], 0, 2),
        ],
    )
    def test_refuses_what_does_not_join(
        self, tasks: list[Given], offset: int, expected: int
    ) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        self.commit(found, [(0, 0), (0, 1)])
        version = found.topic_image(TOPIC).version

        with pytest.raises(
            UnexpectedAppendOffsetError, match=rf"t-0: .* offset {offset}, expected is {expected},"
        ):
            self.commit(found, *tasks)
        assert found.topic_image(TOPIC).version == version

    def test_leaves_gaps_where_they_are_allowed(self) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        self.commit(found, [(0, 9), (0, 12)], [(0, 3), (0, 5)], gaps=True)

        assert self.commit(found, [(0, 20)], gaps=True).ranges == (OffsetRange(0, 20, 21),)
        with pytest.raises(UnexpectedAppendOffsetError, match="offset 20, expected is 21,"):
            self.commit(found, [(0, 20)], gaps=True)
        with pytest.raises(UnexpectedAppendOffsetError, match="offset 22, expected is 21,"):
            self.commit(found, [(0, 22)])

    def test_is_answered_again_for_its_transaction(self) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        write: dict[str, Any] = {"app_id": "mirror", "version": 1}
        first = self.commit(found, [(0, 0), (0, 1)], **write)
        again = self.commit(found, [(0, 0), (0, 1)], **write)

        assert (again.ranges, again.replayed) == (first.ranges, True)
        with pytest.raises(UnexpectedAppendOffsetError, match="offset 0, expected is 2,"):
            self.commit(found, [(0, 0), (0, 1)], app_id="mirror", version=2)

    def test_loses_to_whoever_produced_meanwhile(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log")
        found = catalog(log_dir)
        wanted = plan_write(found, "t", WriteOptions(flush=False, keeps_offsets=True))
        writer = TopicWriter(found.files, wanted, ManualClock(), seed=0)
        writer.write(*records([(0, 0), (0, 1)]))
        append(log_dir, 0, ["theirs"])

        with pytest.raises(UnexpectedAppendOffsetError, match="t-0: .* offset 0, expected is 1,"):
            commit_write(found, wanted, writer.close())
        assert [row.value for row in rows(log_dir)[0]] == [b"theirs"]


class TestLog:
    @given(st.lists(st.integers(1, 5) | st.sampled_from([2**31, 2**33]), min_size=1, max_size=30))
    @example([2**31 - 1] * 4)
    def test_with_gaps_is_read_as_it_was_written(
        self, tmp_path_factory: pytest.TempPathFactory, steps: list[int]
    ) -> None:
        """Goal: every record has its offset, whatever is left out within and between segments.

        Method: offsets that grow by steps from 1 to beyond what a batch or a segment spans, in
        segments of a few batches of a few records; read whole, and from every offset.
        """
        offsets = np.cumsum(steps).tolist()
        log_dir = mirrored(tmp_path_factory.mktemp("gaps") / "log", offsets)
        reader = TopicReader.open(catalog(log_dir), "t")

        assert [(row.offset, row.value) for row in rows(log_dir)[0]] == [
            (offset, b"%d" % offset) for offset in offsets
        ]
        assert reader.partition(0).log_end_offset == offsets[-1] + 1
        for offset in offsets:
            (one,) = reader.slices(0, offset, offset + 1)
            assert (one.start, one.end) == (offset, offset + 1)


def mirrored(path: Path, offsets: Sequence[int]) -> str:
    """A log dir with topic `t` whose partition 0 has these offsets, in small segments."""
    log_dir = new_topic(path)
    found = catalog(log_dir)
    options = WriteOptions(
        flush=False, keeps_offsets=True, allow_offset_gaps=True, batch_size=90, segment_bytes=300
    )
    wanted = plan_write(found, "t", options)
    writer = TopicWriter(found.files, wanted, ManualClock(), seed=0)
    writer.write(*records([(0, offset) for offset in offsets]))
    commit_write(found, wanted, writer.close())
    return log_dir
