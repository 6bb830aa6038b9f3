"""A broker's segments, recovered: the indexes are the broker's, a cut one is torn."""

import pytest

from sparklog.log.recovery import recover
from tests.kafka.conftest import Written
from tests.kafka.scenarios import CODECS

pytestmark = pytest.mark.kafka

TOPICS = (
    *(f"plain-{codec}" for codec in CODECS),
    "idempotent",
    "transactional",
    "log-append-time",
    "compacted",
)


class TestRecover:
    @pytest.mark.parametrize("topic", TOPICS)
    def test_rebuilds_the_brokers_indexes_byte_for_byte(self, topic: str, written: Written) -> None:
        for files in written.broker.segments(topic):
            data = files.log.read_bytes()
            found = recover(data, files.base_offset, partition=0)

            assert (found.valid_bytes, found.problem) == (len(data), None)
            assert files.index is not None
            assert files.time_index is not None
            assert found.indexes.offset_index == files.index.read_bytes()
            assert found.indexes.time_index == files.time_index.read_bytes()

    def test_calls_a_cut_segment_torn_where_its_last_batch_begins(self, written: Written) -> None:
        (files,) = written.broker.segments("plain-none")
        data = files.log.read_bytes()
        whole = recover(data, files.base_offset, partition=0)
        cut = recover(data[:-1], files.base_offset, partition=0)

        assert cut.torn
        assert whole.summary.batch_count is not None
        assert cut.summary.batch_count == whole.summary.batch_count - 1
        assert cut.summary.file_next_offset == 375
