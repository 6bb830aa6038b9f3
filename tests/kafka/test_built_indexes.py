"""The index job over a broker's own segments: its files are the broker's, byte for byte."""

from dataclasses import replace

import pytest

from sparklog.log.names import LOG_SUFFIX, segment_name, uuid7
from sparklog.maintenance.build_index import build_index
from tests.kafka.conftest import Written
from tests.kafka.dump import SegmentFiles
from tests.kafka.scenarios import CODECS
from tests.log_language import built
from tests.maintenance import outcome_of
from tests.partitions import DIRECTORY, NOW_MS, Partition

pytestmark = pytest.mark.kafka

TOPICS = (
    *(f"plain-{codec}" for codec in CODECS),
    "idempotent",
    "transactional",
    "log-append-time",
    "compacted",
)


def adopted(segments: list[SegmentFiles]) -> Partition:
    """A partition whose sealed segments are the broker's `.log` files, without any index."""
    partition = Partition()
    for number, files in enumerate(segments):
        data = files.log.read_bytes()
        name = segment_name(files.base_offset, uuid7(NOW_MS, bytes([number] * 10)), LOG_SUFFIX)
        partition.files.write_new(f"{DIRECTORY}/t-0/{name}", data)
        summary, _ = built(data, files.base_offset)
        row = replace(summary, record_count=None).entry(files.base_offset, NOW_MS, f"t-0/{name}")
        partition.commit(segments=[row], allow_gaps=True)
    return partition


class TestBuildIndex:
    @pytest.mark.parametrize("topic", TOPICS)
    def test_builds_the_brokers_files(self, topic: str, written: Written) -> None:
        segments = written.broker.segments(topic)
        partition = adopted(segments)
        outcome = outcome_of(build_index, partition, check=False, rebuild=False)

        assert outcome.counts["built"] == len(segments) > 0
        for files, entry in zip(segments, partition.segments, strict=True):
            built = [bytes_of(partition, p) for p in (entry.index_path, entry.time_index_path)]
            assert built == [p.read_bytes() for p in (files.index, files.time_index) if p]


def bytes_of(partition: Partition, path: str | None) -> bytes:
    """An index without entries is a file of 0 bytes with a broker, none with us."""
    return partition.bytes_of(f"{DIRECTORY}/{path}") if path else b""
