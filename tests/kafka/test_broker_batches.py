"""What a broker wrote, read by sparklog: headers, offsets, indexes."""

import numpy as np
import pytest

from sparklog.log.indexer import Indexer
from sparklog.model import Codec
from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches
from tests.kafka.conftest import Written
from tests.kafka.dump import DumpedBatch, SegmentDump, SegmentFiles, dump_segments
from tests.kafka.scenarios import CODECS

pytestmark = pytest.mark.kafka

CODED = [
    *(f"plain-{codec}" for codec in CODECS),
    *(f"recompressed-{codec}" for codec in CODECS[1:]),
]
TOPICS = (*CODED, "idempotent", "transactional", "log-append-time", "compacted")


@pytest.fixture(scope="session")
def segments(written: Written) -> dict[str, list[SegmentFiles]]:
    """The broker's segments by topic."""
    return {topic: written.broker.segments(topic) for topic in TOPICS}


@pytest.fixture(scope="session")
def dumps(segments: dict[str, list[SegmentFiles]]) -> dict[str, list[SegmentDump]]:
    """What Kafka's own tool says of the same segments; one JVM for all."""
    every = iter(dump_segments([one for files in segments.values() for one in files]))
    return {topic: [next(every) for _ in files] for topic, files in segments.items()}


def scanned(files: SegmentFiles) -> BatchTable:
    """The batches of a whole segment, checksums verified."""
    data = files.log.read_bytes()
    scan = scan_batches(data)

    assert (scan.end, scan.problem) == (len(data), None)
    verify_checksums(data, scan.batches)
    return scan.batches


def as_dumped(batches: BatchTable) -> dict[str, list[int]]:
    """The columns that the dump tool prints, under its names."""
    return {
        "base_offset": batches.base_offset.tolist(),
        "last_offset": batches.last_offset.tolist(),
        "count": batches.record_count.tolist(),
        "base_sequence": batches.base_sequence.tolist(),
        "producer_id": batches.producer_id.tolist(),
        "producer_epoch": batches.producer_epoch.tolist(),
        "leader_epoch": batches.leader_epoch.tolist(),
        "is_transactional": batches.is_transactional.tolist(),
        "is_control": batches.is_control.tolist(),
        "position": batches.position.tolist(),
        "max_timestamp": batches.max_timestamp.tolist(),
        "size": batches.size.tolist(),
        "magic": batches.magic.tolist(),
    }


def columns(batches: tuple[DumpedBatch, ...], names: dict[str, list[int]]) -> dict[str, list[int]]:
    """The same columns of what the tool printed."""
    return {name: [getattr(batch, name) for batch in batches] for name in names}


@pytest.mark.parametrize("topic", TOPICS)
class TestHeaders:
    def test_are_read_as_the_dump_tool_reads_them(
        self,
        topic: str,
        segments: dict[str, list[SegmentFiles]],
        dumps: dict[str, list[SegmentDump]],
    ) -> None:
        for files, dump in zip(segments[topic], dumps[topic], strict=True):
            ours = as_dumped(scanned(files))

            assert ours == columns(dump.batches, ours)

    def test_name_the_codec_and_whose_clock_it_was(
        self,
        topic: str,
        segments: dict[str, list[SegmentFiles]],
        dumps: dict[str, list[SegmentDump]],
    ) -> None:
        types = {0: "CreateTime", 1: "LogAppendTime"}
        for files, dump in zip(segments[topic], dumps[topic], strict=True):
            batches = scanned(files)

            assert [Codec(codec).name.lower() for codec in batches.codec] == [
                batch.codec for batch in dump.batches
            ]
            assert [types[kind] for kind in batches.timestamp_type.tolist()] == [
                batch.timestamp_type for batch in dump.batches
            ]


class TestScenarios:
    """The broker wrote what the other tests believe to be reading."""

    @pytest.mark.parametrize("topic", CODED)
    def test_every_codec_is_there(
        self, topic: str, segments: dict[str, list[SegmentFiles]]
    ) -> None:
        """librdkafka leaves a batch as it is that compression would not make smaller."""
        (files,) = segments[topic]
        writer, _, name = topic.partition("-")
        codec = Codec[name.upper()]
        allowed = {codec, Codec.NONE} if writer == "plain" else {codec}

        assert {codec} <= set(scanned(files).codec.tolist()) <= allowed

    def test_idempotent_batches_count_sequences(
        self, segments: dict[str, list[SegmentFiles]]
    ) -> None:
        batches = scanned(segments["idempotent"][0])

        assert (batches.producer_id >= 0).all()
        assert (batches.producer_epoch >= 0).all()
        assert batches.base_sequence.tolist() == batches.base_offset.tolist()

    def test_transactions_end_with_markers(self, segments: dict[str, list[SegmentFiles]]) -> None:
        batches = BatchTable.concat([scanned(files) for files in segments["transactional"]])

        assert batches.base_offset[batches.is_control].tolist() == [10, 21, 32]
        assert (batches.is_transactional == (batches.producer_id >= 0)).all()

    def test_compaction_left_gaps_and_a_delete_horizon(
        self, segments: dict[str, list[SegmentFiles]]
    ) -> None:
        batches = BatchTable.concat([scanned(files) for files in segments["compacted"]])
        spans = batches.last_offset - batches.base_offset + 1

        assert (spans > batches.record_count).any()
        assert (np.diff(batches.base_offset) > spans[:-1]).any()
        assert (batches.attributes & layout.DELETE_HORIZON_MASK).any()


@pytest.mark.parametrize("topic", TOPICS)
class TestIndexes:
    def test_built_from_the_log_are_the_brokers_bytes(
        self, topic: str, segments: dict[str, list[SegmentFiles]]
    ) -> None:
        for files in segments[topic]:
            indexer = Indexer(files.base_offset)
            indexer.append(scanned(files))
            indexes = indexer.finish()

            assert files.index is not None
            assert files.time_index is not None
            assert indexes.offset_index == files.index.read_bytes()
            assert indexes.time_index == files.time_index.read_bytes()
