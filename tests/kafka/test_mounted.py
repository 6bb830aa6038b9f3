"""A broker serves segments that sparklog wrote, put in its place while it was stopped."""

import pytest

from sparklog.model import Codec
from sparklog.record.encode import BatchSettings
from tests.kafka.client import Record, read_topic
from tests.kafka.conftest import Written
from tests.kafka.dump import SegmentFiles
from tests.kafka.ours import write_segment
from tests.kafka.scenarios import T0, mount, varied_records

pytestmark = pytest.mark.kafka

BINARY = [Record(bytes(range(256)), b"\0\xff" * i, T0 + i) for i in range(50)]
RECORDS = [*varied_records(300), *BINARY]
CODECS = (Codec.NONE, Codec.SNAPPY, Codec.LZ4)
TOPICS = ("mounted", "mounted-indexed")


@pytest.fixture(scope="module")
def served(
    written: Written, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[int, Record]]]:
    """(offset, record) of what a consumer gets from each topic.

    A segment per codec follows the other. One topic has its indexes from us, one lets the broker
    build them when it starts.
    """
    broker = written.broker
    bare, indexed = TOPICS
    segments = [
        write_segment(
            tmp_path_factory.mktemp("mounted"),
            RECORDS,
            BatchSettings(codec, batch_bytes=1500),
            base_offset=len(RECORDS) * number,
        )
        for number, codec in enumerate(CODECS)
    ]
    mount(broker, bare, [SegmentFiles(each.base_offset, each.log) for each in segments])
    mount(broker, indexed, segments)
    broker.start()
    try:
        return {topic: read_topic(broker, topic) for topic in TOPICS}
    finally:
        broker.stop()


class TestServed:
    @pytest.mark.parametrize("topic", TOPICS)
    def test_a_consumer_reads_every_record(
        self, topic: str, served: dict[str, list[tuple[int, Record]]]
    ) -> None:
        assert served[topic] == list(enumerate(RECORDS * len(CODECS)))

    def test_the_broker_builds_the_same_indexes(
        self, written: Written, served: dict[str, list[tuple[int, Record]]]
    ) -> None:
        bare, indexed = (written.broker.segments(topic) for topic in TOPICS)

        assert [index_bytes(files) for files in bare] == [index_bytes(files) for files in indexed]
        assert all(index and time_index for index, time_index in map(index_bytes, bare))


def index_bytes(files: SegmentFiles) -> tuple[bytes, bytes]:
    """The bytes of both indexes; b"" for one that is missing."""
    paths = (files.index, files.time_index)
    index, time_index = (b"" if path is None else path.read_bytes() for path in paths)
    return index, time_index
