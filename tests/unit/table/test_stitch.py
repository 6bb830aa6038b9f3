"""Which offsets come from the table, which from the log; and that both together are the log."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED, AbortedRange, Codec
from sparklog.table.marks import Mark
from sparklog.table.stitch import stitch
from tests.compaction import Compacted, keyed_batch, sent
from tests.maintenance import run
from tests.partitions import Partition, batch, marker
from tests.tables import WITH_TABLE, build, names, stitched


def ten() -> Partition:
    """Offsets 0 to 9 in two segments."""
    return Partition().append(batch(1, 2, 3, 4, 5)).append(batch(1, 2, 3, 4, 5))


class TestStitch:
    @pytest.mark.parametrize(
        ("mark", "table", "log"),
        [
            (Mark(0, 10), [(0, 10)], []),
            (Mark(0, 4), [(0, 4)], [(4, 10)]),
            (Mark(3, 8), [(3, 8)], [(0, 3), (8, 10)]),
            (Mark(0, 0), [], [(0, 10)]),
            (Mark(10, 20), [], [(0, 10)]),
        ],
    )
    def test_takes_from_the_table_what_its_marks_hold(
        self, mark: Mark, table: list[tuple[int, int]], log: list[tuple[int, int]]
    ) -> None:
        assert stitch(0, 10, mark, ten().log, READ_UNCOMMITTED) == (table, log)

    def test_takes_no_more_than_is_asked_for(self) -> None:
        assert stitch(3, 5, Mark(0, 10), ten().log, READ_UNCOMMITTED) == ([(3, 5)], [])

    def test_takes_from_the_log_what_compaction_has_cleaned(self) -> None:
        log = Compacted().put("a=1", "b=1").put("a=2").put("c=3")
        log.compact()
        cleaned = log.partition.log.cleaner_offset

        assert 0 < cleaned < 4
        found = stitch(0, 4, Mark(0, 4), log.partition.log, READ_UNCOMMITTED)
        assert found == ([(cleaned, 4)], [(0, cleaned)])

    def test_takes_from_the_log_where_an_uncommitted_reader_sees_aborted_records(self) -> None:
        log = (
            Partition()
            .append(sent("a", "b"), keyed_batch("c"), marker(), aborted=(AbortedRange(7, 0, 1),))
            .append(keyed_batch("d"), sent("e"), aborted=(AbortedRange(7, -1, 1),))
            .log
        )

        assert stitch(0, 6, Mark(0, 6), log, READ_COMMITTED) == ([(0, 6)], [])
        assert stitch(0, 6, Mark(0, 6), log, READ_UNCOMMITTED) == ([(2, 3)], [(0, 2), (3, 6)])

    def test_takes_from_the_log_what_no_segment_holds_any_more(self) -> None:
        log = ten().append(batch(1, 2))
        gone = log.segments[1]
        log.commit(remove=[gone.key], removed_ms=1)

        assert stitch(0, 12, Mark(0, 12), log.log, READ_COMMITTED) == (
            [(0, 5), (10, 12)],
            [(5, 10)],
        )


class Life:
    """A partition to which things happen, and its table, which is built now and then."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.log = Compacted(cleanup_policy="compact", **names(WITH_TABLE))
        self._open = False

    def step(self) -> None:
        """Let something happen."""
        kinds = [self._put] * 5 + [self._transaction] * 2 + [self._built] * 3
        kinds += [self._compacted, self._merged, self._trimmed, self._skipped]
        self._random.choice(kinds)()

    def _put(self) -> None:
        texts = [self._random.choice(("a=1", "b=2", "c", "d=4")) for _ in range(3)]
        self.log.put(*texts, codec=self._random.choice([*Codec]))

    def _transaction(self) -> None:
        """One that is open until it is ended by the next."""
        partition = self.log.partition
        if not self._open:
            first = partition.end
            self.log.add(sent("a=t", "e=t"))
            partition.commit(transactions={0: (OpenTransaction(7, first),)})
        else:
            self._end(partition)
        self._open = not self._open

    def _end(self, partition: Partition) -> None:
        first = partition.log.transactions[0].first_offset
        is_aborted = self._random.random() < 0.5
        aborted = (AbortedRange(7, first - partition.end, 0),) if is_aborted else ()
        self.log.add(marker(), aborted=aborted)
        partition.commit(transactions={0: ()})
        for entry in partition.segments if aborted else ():
            if first < entry.next_offset < partition.end:
                by = first - entry.base_offset
                span = AbortedRange(7, by, partition.end - 1 - entry.base_offset)
                partition.with_columns(entry, aborted=(*entry.aborted, span))

    def _built(self) -> None:
        build(self.log.context)

    def _compacted(self) -> None:
        self.log.wait(self._random.choice((0, 2000))).compact()

    def _merged(self) -> None:
        run(merge_segments, self.log.partition, seal=False)

    def _trimmed(self) -> None:
        log = self.log.partition.log
        before = self._random.randint(log.log_start_offset, log.last_stable_offset)
        self.log.partition.delete_records(before)

    def _skipped(self) -> None:
        self.log.skip(self._random.randint(1, 3))

    def check(self) -> None:
        """A stitched read of a random range is that of the log, to both kinds of readers."""
        partition = self.log.partition
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            low, high = partition.log.log_start_offset, partition.log.end_offset(isolation)
            start, end = sorted(self._random.randint(low, high) for _ in range(2))
            if start < end:
                expected = partition.read(start, end, isolation=isolation)
                assert stitched(partition, start, end, isolation) == expected


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_a_stitched_read_is_the_log_whatever_happens(seed: int) -> None:
    life = Life(seed)
    for _ in range(25):
        life.step()
        life.check()
