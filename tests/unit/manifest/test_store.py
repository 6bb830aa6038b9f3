"""Values of the manifest: states, changes, snapshots, and offsets at the log end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import UsageError
from sparklog.manifest.store import Change, PartitionState, Snapshot, at_log_end
from sparklog.manifest.tables import segments_table
from sparklog.model import OffsetRange
from tests.manifests import NOW_MS, at, segment

STATES = st.builds(PartitionState, *[st.integers(0, 2**63 - 1)] * 5)


def snapshot(**ends: int) -> Snapshot:
    """A snapshot without segments; `p1=5` says that partition 1 ends at 5."""
    states = {int(name[1:]): PartitionState(log_end_offset=end) for name, end in ends.items()}
    return Snapshot(1, states, lambda: segments_table([]))


class TestPartitionState:
    @given(STATES, STATES, STATES)
    def test_growing_is_a_maximum(
        self, a: PartitionState, b: PartitionState, c: PartitionState
    ) -> None:
        """Goal: in whatever order and how often rows are read, the same comes out.

        Method: commutative, associative, idempotent, with the new partition as neutral element.
        """
        assert a.grown(b) == b.grown(a)
        assert a.grown(b).grown(c) == a.grown(b.grown(c))
        assert a.grown(a) == a == a.grown(PartitionState())


class TestChange:
    def test_that_removes_says_when(self) -> None:
        with pytest.raises(UsageError, match="removed_ms is missing"):
            Change(remove=["a"])

    def test_adds_nothing_that_it_removes(self) -> None:
        entry = segment()

        with pytest.raises(UsageError, match="also removes or replaces"):
            Change(segments=[entry], remove=[entry.log_path], removed_ms=NOW_MS)

    def test_touches_nothing_twice(self) -> None:
        entry = segment()

        with pytest.raises(UsageError, match="a segment twice"):
            Change(replace=[entry], remove=[entry.log_path], removed_ms=NOW_MS)

    @pytest.mark.parametrize(
        "change",
        [
            Change(segments=[segment()]),
            Change(partitions={0: PartitionState()}),
            Change(replace=[segment()]),
            Change(remove=["a"], removed_ms=0),
            Change(closed_ms=0),
            Change(vacuum_horizon_ms=0),
        ],
    )
    def test_is_not_empty_when_it_changes_something(self, change: Change) -> None:
        assert not change.is_empty

    def test_is_empty_whatever_it_was_planned_with(self) -> None:
        assert Change(leader_epochs={0: 1}, allow_gaps=True, partition_count=3).is_empty

    def test_ranges_are_those_that_the_log_grows_by(self) -> None:
        entries = [at(10, segment(1)), at(0, segment(0)), at(25, segment(1)), at(2, segment(2))]
        change = Change(segments=entries)

        assert change.ranges(snapshot(p1=10, p2=12)) == (
            OffsetRange(0, 0, 10),
            OffsetRange(1, 10, 35),
        )


class TestAtLogEnd:
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2**40))), st.integers(0, 2**40))
    def test_offsets_are_contiguous_in_the_order_given(
        self, writes: list[tuple[int, int]], end: int
    ) -> None:
        """Goal: no hole, no overlap, and files keep their own numbers.

        Method: any segments over three partitions, one of which has an end already.
        """
        pending = [segment(partition, records) for partition, records in writes]
        placed = at_log_end(snapshot(p1=end), pending)

        assert [entry.log_path for entry in placed] == [entry.log_path for entry in pending]
        for number, start in ((0, 0), (1, end), (2, 0)):
            mine = [entry for entry in placed if entry.partition == number]
            ends = [entry.next_offset for entry in mine]
            assert [entry.base_offset for entry in mine] == [start, *ends][: len(mine)]
        assert {entry.file_base_offset for entry in placed} <= {0}


class TestSnapshot:
    def test_reads_live_segments_when_asked_and_once(self) -> None:
        reads = []

        def read() -> object:
            reads.append(1)
            return segments_table([at(0, segment()), at(0, segment(2))])

        found = Snapshot(1, {}, read)
        before = len(reads)
        lists = [found.segments(number) for number in (0, 1, 2, 0)]

        assert (before, len(reads)) == (0, 1)
        assert [len(segments) for segments in lists] == [1, 0, 1, 1]
        assert lists[0] is lists[3]
