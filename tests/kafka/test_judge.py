"""Kafka 4.1.1's DumpLogSegments over segments that sparklog wrote."""

from collections.abc import Sequence
from itertools import product

import pytest

from sparklog.model import Codec, TimestampType
from sparklog.record.encode import BatchSettings
from tests.kafka.client import Record
from tests.kafka.dump import SegmentDump, assert_sound, dump_segments
from tests.kafka.ours import write_segment
from tests.kafka.scenarios import T0, varied_records

pytestmark = pytest.mark.kafka

APPEND_TIME = T0 + 1_000_000
TYPES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
KINDS = tuple(product(Codec, TYPES))
Kind = tuple[Codec, TimestampType]

RECORDS = varied_records(500)
BASE_OFFSET = 7_000_000_000


def settings(codec: Codec, timestamp_type: TimestampType) -> BatchSettings:
    """Batches small enough that a segment has many, and index entries."""
    is_append_time = timestamp_type == TimestampType.LOG_APPEND_TIME
    return BatchSettings(
        codec=codec,
        batch_bytes=2000,
        timestamp_type=timestamp_type,
        log_append_time_ms=APPEND_TIME if is_append_time else -1,
        leader_epoch=3,
    )


@pytest.fixture(scope="module")
def dumps(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, SegmentDump]:
    """What Kafka says of one segment per codec and timestamp type; one JVM for all."""
    folder = tmp_path_factory.mktemp("judged")
    segments = []
    for codec, timestamp_type in KINDS:
        place = folder / f"{codec.name}-{timestamp_type.name}"
        place.mkdir()
        segments.append(write_segment(place, RECORDS, settings(codec, timestamp_type), BASE_OFFSET))
    return dict(zip(KINDS, dump_segments(segments), strict=True))


def contents(dump: SegmentDump) -> list[tuple[int, int, str | None, str | None, tuple[str, ...]]]:
    """(offset, timestamp, key, value, header keys) of every record that was printed."""
    return [(r.offset, r.timestamp, r.key, r.value, r.header_keys) for r in dump.records]


def expected(
    records: Sequence[Record], base_offset: int, timestamp: int | None
) -> list[tuple[int, int, str | None, str | None, tuple[str, ...]]]:
    """The same of what was encoded; `timestamp` stands in for every record's own."""
    return [
        (
            base_offset + i,
            record.timestamp if timestamp is None else timestamp,
            None if record.key is None else record.key.decode(),
            None if record.value is None else record.value.decode(),
            tuple(name for name, _ in record.headers),
        )
        for i, record in enumerate(records)
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(part.name for part in kind))
class TestSegments:
    def test_are_valid_and_their_indexes_match(
        self, kind: Kind, dumps: dict[Kind, SegmentDump]
    ) -> None:
        dump = dumps[kind]

        assert_sound(dump)
        assert dump.starting_offset == BASE_OFFSET
        assert dump.index != ()
        assert dump.time_index != ()

    def test_hold_every_record(self, kind: Kind, dumps: dict[Kind, SegmentDump]) -> None:
        timestamp = APPEND_TIME if kind[1] == TimestampType.LOG_APPEND_TIME else None

        assert contents(dumps[kind]) == expected(RECORDS, BASE_OFFSET, timestamp)

    def test_say_codec_clock_and_leader_epoch(
        self, kind: Kind, dumps: dict[Kind, SegmentDump]
    ) -> None:
        codec, timestamp_type = kind
        batches = dumps[kind].batches

        assert len(batches) > 10
        assert {batch.codec for batch in batches} == {codec.name.lower()}
        assert {batch.timestamp_type for batch in batches} == {TYPES[timestamp_type]}
        assert {batch.leader_epoch for batch in batches} == {3}
        assert {(batch.producer_id, batch.base_sequence) for batch in batches} == {(-1, -1)}


@pytest.fixture(scope="module")
def extremes(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SegmentDump]:
    """Segments at the edges of what a batch can hold."""
    cases: dict[str, list[Record]] = {
        "large": [Record(None, b"x" * size, T0) for size in (1, 1_048_000, 1)],
        "times": [Record(b"k", b"v", t) for t in (2**62, 0, 2**62, T0)],
        "single": [Record(None, None, 0)],
    }
    folder = tmp_path_factory.mktemp("extremes")
    segments = []
    for name, records in cases.items():
        (folder / name).mkdir()
        segments.append(write_segment(folder / name, records, BatchSettings()))
    return dict(zip(cases, dump_segments(segments), strict=True))


class TestExtremes:
    @pytest.mark.parametrize("case", ["large", "times", "single"])
    def test_are_sound(self, case: str, extremes: dict[str, SegmentDump]) -> None:
        assert_sound(extremes[case])

    def test_a_record_may_nearly_fill_the_largest_message(
        self, extremes: dict[str, SegmentDump]
    ) -> None:
        assert [record.value_size for record in extremes["large"].records] == [1, 1_048_000, 1]

    def test_timestamps_may_jump_across_half_the_range(
        self, extremes: dict[str, SegmentDump]
    ) -> None:
        times = [record.timestamp for record in extremes["times"].records]

        assert times == [2**62, 0, 2**62, T0]
