"""Kafka's own tool over what compaction has left: sound batches, sound indexes, lawful gaps."""

from pathlib import Path

import pytest

from sparklog.log_writer import WriteOptions
from sparklog.maintenance.compaction.compact import compact
from sparklog.model import SegmentEntry
from tests.compaction import COMPACTED
from tests.kafka.dump import SegmentDump, SegmentFiles, dump_segments
from tests.logs import append, image, new_topic, rows
from tests.maintenance import outcome_of

pytestmark = pytest.mark.kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 400
T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five segments, a codec each, that share half their keys; a tombstone for every fifth."""
    log_dir = new_topic(tmp_path_factory.mktemp("log") / "log", partitions=1, config=COMPACTED)
    for number, codec in enumerate(CODECS):
        keys = [f"k{number * RECORDS // 2 + one}" for one in range(RECORDS)]
        values = [f"{number}-{one}".ljust(40, "x") for one in range(RECORDS)]
        options = WriteOptions(compression_type=codec, batch_size=2000)
        times = range(T0 + number, T0 + number + RECORDS)
        append(log_dir, 0, values, keys=keys, timestamps=times, options=options)
    keys = [f"k{one}" for one in range(0, 3 * RECORDS, 5)]
    append(log_dir, 0, [None] * len(keys), keys=keys, timestamps=[T0] * len(keys))
    append(log_dir, 0, ["newest"], keys=["k0"])
    outcome_of(compact, log_dir, force=True, reindex=False)
    return log_dir


def linked(log_dir: str, entry: SegmentEntry) -> SegmentFiles:
    (topic,) = Path(log_dir).glob("t-*")
    return SegmentFiles(
        entry.base_offset,
        topic / entry.log_path,
        topic / entry.index_path if entry.index_path else None,
        topic / entry.time_index_path if entry.time_index_path else None,
    )


@pytest.fixture(scope="module")
def dump(log_dir: str) -> SegmentDump:
    (found,) = dump_segments([linked(log_dir, next(iter(image(log_dir).segments(0))))])
    return found


class TestCompacted:
    def test_has_sound_batches_and_indexes(self, dump: SegmentDump) -> None:
        """The tool finds nothing wrong but the gaps."""
        assert dump.invalid_bytes == 0
        assert all(batch.is_valid for batch in dump.batches)
        assert all(record.is_valid for record in dump.records)
        gaps = ("Non-consecutive offsets in ", " is followed by ")
        assert [line for line in dump.complaints if not any(gap in line for gap in gaps)] == []
        assert len(dump.index) > 2

    def test_keeps_codecs_and_spans(self, dump: SegmentDump) -> None:
        assert {batch.codec for batch in dump.batches} == set(CODECS)
        spans = [(batch.base_offset, batch.last_offset) for batch in dump.batches]
        assert spans == sorted(spans)
        assert any(batch.count <= batch.last_offset - batch.base_offset for batch in dump.batches)

    def test_holds_the_records_that_we_read(self, log_dir: str, dump: SegmentDump) -> None:
        ours = [(row.offset, row.timestamp, row.key, row.value) for row in rows(log_dir)[0][:-1]]

        assert ours == [
            (one.offset, one.timestamp, _bytes(one.key), _bytes(one.value)) for one in dump.records
        ]

    def test_gives_tombstones_a_delete_horizon(self, dump: SegmentDump) -> None:
        for batch in dump.batches:
            has_tombstone = any(record.value is None for record in batch.records)
            assert (batch.delete_horizon_ms is not None) is has_tombstone
        assert sum(batch.delete_horizon_ms is not None for batch in dump.batches) > 0


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
