from hypothesis import given
from hypothesis import strategies as st

from tests.partitions import Partition, partitions


class TestAnyPartition:
    @given(partitions(), st.data())
    def test_every_range_is_read_as_a_naive_reader_reads_it(
        self, partition: Partition, data: st.DataObject
    ) -> None:
        """Goal: no record is lost, doubled or changed, whatever segments, codecs and gaps there
        are. Method: any range, small windows and answers, against the records of a plain reader.
        """
        low = partition.snapshot.state(0).log_start_offset
        start = data.draw(st.integers(low, partition.end))
        end = data.draw(st.integers(start, partition.end))
        sizes = {
            "window_bytes": data.draw(st.sampled_from((1, 61, 100, 200, 2**23))),
            "rows_max": data.draw(st.sampled_from((1, 2, 5, 2**16))),
        }

        found = partition.read(start, end, **sizes)

        assert found == partition.expected(start, end)

    @given(partitions(), st.integers(-3, 11) | st.integers(0, 2**62))
    def test_every_time_is_found_as_by_a_look_at_every_record(
        self, partition: Partition, timestamp: int
    ) -> None:
        """Goal: shortcuts are exact. Method: any partition and log start, any time."""
        assert partition.reader.list_offset(0, timestamp) == partition.expected_offset(timestamp)
