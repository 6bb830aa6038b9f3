"""The judge can say no: damaged segments are complained about."""

from dataclasses import replace
from pathlib import Path

import pytest

from sparklog.record import layout
from tests.kafka.conftest import Written
from tests.kafka.dump import SegmentDump, SegmentFiles, assert_sound, dump_segments

pytestmark = pytest.mark.kafka


@pytest.fixture
def segment(written: Written) -> SegmentFiles:
    """A sound segment with several entries in both indexes."""
    (files,) = written.broker.segments("plain-none")
    return files


def changed(source: Path | None, position: int, target: Path) -> Path:
    """A copy with one bit of one byte turned."""
    assert source is not None
    data = bytearray(source.read_bytes())
    data[position] ^= 1
    target.write_bytes(data)
    return target


def dump(files: SegmentFiles) -> SegmentDump:
    """What the tool says of one segment."""
    return dump_segments([files])[0]


class TestJudge:
    def test_accepts_what_the_broker_wrote(self, segment: SegmentFiles) -> None:
        assert_sound(dump(segment))

    def test_sees_a_checksum_that_is_wrong(self, segment: SegmentFiles, tmp_path: Path) -> None:
        log = changed(segment.log, layout.CRC, tmp_path / "log")

        found = dump(replace(segment, log=log)).batches
        assert [batch.is_valid for batch in found] == [False] + [True] * (len(found) - 1)

    def test_sees_a_torn_tail(self, segment: SegmentFiles, tmp_path: Path) -> None:
        log = tmp_path / "log"
        log.write_bytes(segment.log.read_bytes()[:-1])

        assert dump(SegmentFiles(0, log)).invalid_bytes > 0

    def test_sees_an_index_entry_of_another_offset(
        self, segment: SegmentFiles, tmp_path: Path
    ) -> None:
        index = changed(segment.index, 3, tmp_path / "index")

        complaints = dump(replace(segment, index=index)).complaints
        assert any(line.startswith("Mismatches in") for line in complaints)
        assert "Index offset: 75, log offset: 74" in complaints

    def test_sees_a_time_index_entry_of_another_time(
        self, segment: SegmentFiles, tmp_path: Path
    ) -> None:
        time_index = changed(segment.time_index, 7, tmp_path / "time_index")

        complaints = dump(replace(segment, time_index=time_index)).complaints
        assert any(line.startswith("Found timestamp mismatch in") for line in complaints)

    def test_tells_the_segments_of_one_run_apart(
        self, segment: SegmentFiles, tmp_path: Path
    ) -> None:
        bad = replace(segment, index=changed(segment.index, 3, tmp_path / "index"))

        first, second, third = dump_segments([segment, bad, segment])
        assert (first.complaints, third.complaints) == ((), ())
        assert len(second.complaints) == 2

    def test_prints_keys_values_and_names_of_headers(self, written: Written) -> None:
        (files,) = written.broker.segments("plain-zstd")

        record = dump(files).records[2]
        assert (record.key, record.key_size) == ("key-2", 5)
        assert record.value == "value-2-value-2-value-2-"
        assert record.header_keys == ("h1", "h2", "h1", "size")
