"""Which records belong to aborted transactions."""

import numpy as np

from sparklog.log_reader.isolation import AbortedSpan
from sparklog.maintenance.compaction.aborted import without_aborted
from sparklog.maintenance.compaction.superseded import KeySource, key_records
from tests.compaction import Compacted, keyed_batch, sent
from tests.partitions import DIRECTORY, marker


class TestWithoutAborted:
    def left(self, log: Compacted, *spans: AbortedSpan) -> list[tuple[int, bytes | None]]:
        """Offsets and keys of the last segment's records that are left."""
        entry = log.partition.segments[-1]
        source = KeySource(files=log.partition.files, directory=DIRECTORY, entry=entry)
        records = key_records(source)
        found: list[tuple[int, bytes | None]] = []
        for some in without_aborted(log.partition.files, DIRECTORY, entry, spans, records):
            assert some.num_rows == len(some.key) == len(some.offset)
            found += zip(some.offset.to_pylist(), some.key.to_pylist(), strict=True)
        return found

    def test_leaves_out_the_records_of_aborted_batches(self) -> None:
        log = Compacted().put("x=0").add(keyed_batch("a"), sent("b", "c"), marker(), sent("d"))

        assert self.left(log, AbortedSpan(7, 2, 4)) == [(1, b"a"), (5, b"d")]
        assert self.left(log, AbortedSpan(7, 1, 9)) == [(1, b"a")]
        assert self.left(log) == [(1, b"a"), (2, b"b"), (3, b"c"), (5, b"d")]

    def test_may_leave_nothing(self) -> None:
        log = Compacted().add(sent("a", "b"), marker())

        assert self.left(log, AbortedSpan(7, 0, 2)) == []

    def test_has_offsets_in_order(self) -> None:
        log = Compacted().add(sent("a"), sent("b"), keyed_batch("c"), sent("d"))
        offsets = [offset for offset, _ in self.left(log, AbortedSpan(7, 1, 1))]

        assert offsets == np.sort(offsets).tolist() == [0, 2, 3]
