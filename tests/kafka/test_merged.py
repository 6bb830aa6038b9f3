"""Kafka's own tool over what merging has made: one contiguous log, with sound indexes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sparklog.log_writer import WriteOptions
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.model import SegmentEntry
from tests.kafka.dump import SegmentFiles, assert_sound, dump_segments
from tests.logs import append, image, new_topic
from tests.maintenance import outcome_of

pytestmark = pytest.mark.kafka

SEGMENT_BYTES = 1 << 20
RECORDS = 6000
PRODUCES = 9


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nine segments, three of them of some 400 KB, merged into segments of 1 MiB."""
    config = {"segment.bytes": SEGMENT_BYTES}
    log_dir = new_topic(tmp_path_factory.mktemp("log") / "log", partitions=1, config=config)
    for produce in range(PRODUCES):
        codec = ("none", "zstd", "lz4")[produce % 3]
        values = [f"{produce}-{number}".ljust(50, "x") for number in range(RECORDS)]
        options = WriteOptions(compression_type=codec, batch_size=1000)
        append(log_dir, 0, values, timestamps=range(RECORDS), options=options)
    outcome_of(merge_segments, log_dir, seal=True)
    return log_dir


def linked(log_dir: str, entries: Sequence[SegmentEntry]) -> list[SegmentFiles]:
    """The files of segments; the tool sees them by hard links under canonical names."""
    (topic,) = Path(log_dir).glob("t-*")
    return [
        SegmentFiles(
            entry.base_offset,
            topic / entry.log_path,
            topic / entry.index_path if entry.index_path else None,
            topic / entry.time_index_path if entry.time_index_path else None,
        )
        for entry in entries
    ]


class TestMerged:
    def test_is_one_contiguous_log(self, log_dir: str) -> None:
        entries = list(image(log_dir).segments(0))
        dumps = dump_segments(linked(log_dir, entries))
        batches = [batch for dump in dumps for batch in dump.batches]

        assert 1 < len(entries) < PRODUCES
        ends = [0, *(batch.last_offset + 1 for batch in batches)]
        assert [batch.base_offset for batch in batches] == ends[:-1]
        assert ends[-1] == RECORDS * PRODUCES
        assert {batch.codec for batch in batches} == {"none", "zstd", "lz4"}

    def test_has_indexes_without_a_mismatch(self, log_dir: str) -> None:
        entries = list(image(log_dir).segments(0))
        dumps = dump_segments(linked(log_dir, entries))

        for dump, entry in zip(dumps, entries, strict=True):
            assert_sound(dump)
            assert dump.starting_offset == entry.base_offset
            assert dump.index
            assert dump.time_index[-1] == (RECORDS - 1, entry.max_timestamp_offset)

    def test_holds_the_records(self, log_dir: str) -> None:
        dumps = dump_segments(linked(log_dir, list(image(log_dir).segments(0))))
        values = [record.value for dump in dumps for record in dump.records]

        assert values == [
            f"{produce}-{number}".ljust(50, "x")
            for produce in range(PRODUCES)
            for number in range(RECORDS)
        ]
