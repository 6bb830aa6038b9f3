"""One group of segments to one segment; what is dropped in it is given."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from sparklog.errors import CorruptRecordError, StorageError
from sparklog.log import key_index
from sparklog.log.roll import RollPolicy
from sparklog.log.windows import WINDOW_BYTES
from sparklog.maintenance.compaction.rewrite import Found, Rewrite, rewrite
from sparklog.maintenance.compaction.superseded import Suspects
from sparklog.metadata.catalog import PRODUCER_ID_EXPIRATION_MS
from sparklog.model import AbortedRange, Codec, SegmentEntry
from sparklog.record.scan import scan_batches
from sparklog.storage.memory import MemoryFiles
from tests.compaction import Compacted, keyed_batch, of_producer
from tests.damage import Log
from tests.naive.decode import read_log
from tests.naive.records import Record
from tests.partitions import DIRECTORY, TOPIC, marker, message_set

TRANSACTIONAL = 16


def offsets(*numbers: int) -> Any:
    return np.array(numbers, np.uint32)


def suspects(**keys: int) -> Suspects:
    """Each key, and the offset - base offset of the record that may have it."""
    names = pa.array([key.encode() for key in keys], pa.large_binary())
    return Suspects(np.array(list(keys.values()), np.int64), names)


class Part(NamedTuple):
    """A segment, and what buckets have found in it."""

    entry: SegmentEntry
    found: Sequence[Found]


def part(
    log: Compacted, slot: int = 0, superseded: Sequence[Any] = (), suspects: Sequence[Suspects] = ()
) -> Part:
    entry = log.partition.segments[slot]
    found = [Found(segment=entry.key, superseded=some) for some in superseded]
    return Part(entry, [*found, *(Found(segment=entry.key, suspects=some) for some in suspects)])


def rewritten(log: Compacted, *parts: Part, **changes: Any) -> SegmentEntry | None:
    values: dict[str, Any] = {
        "files": log.partition.files,
        "clock": log.catalog.clock,
        "topic": TOPIC,
        "segments": [one.entry for one in parts],
        "policy": RollPolicy(),
        "end_offset": log.partition.end,
        "now_ms": log.now_ms,
        "delete_retention_ms": 1000,
    }
    found = [one for part in reversed(parts) for one in part.found]
    return rewrite(Rewrite(**values | changes), found)


def written(log: Compacted, *parts: Part, **changes: Any) -> SegmentEntry:
    entry = rewritten(log, *parts, **changes)
    assert entry is not None
    return entry


def records(log: Compacted, entry: SegmentEntry) -> list[Record]:
    return read_log(bytes(log.partition.files.read(f"{DIRECTORY}/{entry.log_path}")))


def keys(log: Compacted, entry: SegmentEntry) -> list[bytes | None]:
    return [record.key for record in records(log, entry)]


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may have 2,000 bytes, and an array 5,000."""
    monkeypatch.setattr("sparklog.record.retain.BATCH_BYTES_MAX", 2000)
    monkeypatch.setattr("sparklog.record.columns.COLUMN_BYTES_MAX", 5000)


def memory(log: Compacted) -> MemoryFiles:
    assert isinstance(log.partition.files, MemoryFiles)
    return log.partition.files


class TestRewrite:
    def test_joins_segments_without_what_is_superseded(self) -> None:
        log = Compacted().put("a=1", "b=1").put("c=1", "d=1")
        first = part(log, superseded=[offsets(1)])
        entry = written(log, first, part(log, 1, superseded=[offsets(1), offsets(0)]), end_offset=9)

        assert records(log, entry) == log.partition.records[:1]
        assert (entry.base_offset, entry.next_offset, entry.shift) == (0, 4, 0)

    def test_begins_where_its_first_segment_begins(self) -> None:
        log = Compacted().put("x=0").put("a=1", "b=1")
        entry = written(log, part(log, 1, superseded=[offsets(0)]))

        assert (entry.base_offset, entry.file_base_offset, entry.next_offset) == (1, 1, 3)
        assert records(log, entry) == log.partition.records[2:]

    def test_of_nothing_left_is_no_segment(self) -> None:
        log = Compacted().put("a=1")
        before = list(log.partition.files.list(recursive=True))

        assert rewritten(log, part(log, superseded=[offsets(0)]), end_offset=9) is None
        assert list(log.partition.files.list(recursive=True)) == before

    def test_keeps_an_empty_batch_at_the_end_of_the_round(self) -> None:
        log = Compacted().put("x=0").put("a=1")
        entry = written(log, part(log, 1, superseded=[offsets(0)]))

        assert (entry.record_count, entry.batch_count, entry.log_bytes) == (0, 1, 61)

    def test_indexes_the_keys_that_are_left(self) -> None:
        log = Compacted().put("x=0").put("a=1", "b=1", "=1").add(marker()).put("c")
        entry = written(log, part(log, 1, superseded=[offsets(0)]), part(log, 2), part(log, 3))
        data = bytes(log.partition.files.read(f"{DIRECTORY}/{entry.key_index_path}"))
        found = key_index.read_range(lambda at, size: data[at : at + size], len(data))

        assert sorted(found.deltas.tolist()) == [1, 4]
        assert entry.key_index_bytes == len(data)
        assert entry.delete_horizon_ms == log.now_ms + 1000

    def test_is_durable(self) -> None:
        log = Compacted().put("a=1", "b")
        entry = written(log, part(log))
        memory(log).lose_unsynced()

        assert keys(log, entry) == [b"a", b"b"]
        for path in (entry.time_index_path, entry.key_index_path):
            assert log.partition.files.stat(f"{DIRECTORY}/{path}") is not None

    def test_reads_segments_of_many_windows(self) -> None:
        log = Compacted()
        value = "x" * (WINDOW_BYTES // 10)
        log.put(*(f"{number}={value}" for number in range(12)), batch_bytes=1)
        entry = written(log, part(log, superseded=[offsets(0, 5, 11)]), end_offset=99)

        assert [one.offset for one in records(log, entry)] == [1, 2, 3, 4, 6, 7, 8, 9, 10]

    def test_takes_no_more_memory_for_records_that_compress_well(self, little_memory: None) -> None:
        value = "x" * 1000
        log = Compacted()
        log.put(*(f"{at}={value}" for at in range(9)), codec=Codec.ZSTD, batch_bytes=1)
        entry = written(log, part(log, superseded=[offsets(0, 5)]), end_offset=99)

        assert [one.offset for one in records(log, entry)] == [1, 2, 3, 4, 6, 7, 8]


class TestSuspects:
    def test_go_if_they_have_the_key(self) -> None:
        log = Compacted().put("x=0").put("a=1", "b=1", "=1", "c=1")
        found = suspects(a=0, c=1, z=2, b=3)
        entry = written(log, part(log, 1, suspects=[found, suspects(c=3)]))

        assert keys(log, entry) == [b"b"]

    def test_of_one_offset_may_be_several(self) -> None:
        log = Compacted().put("a=1", "b=1")
        entry = written(log, part(log, suspects=[suspects(z=0), suspects(a=0), suspects(y=0)]))

        assert keys(log, entry) == [b"b"]

    def test_that_are_no_records_are_none(self) -> None:
        """Of a key index that says more than its segment holds."""
        log = Compacted().put("a=1", "b=1")
        entry = written(log, part(log, suspects=[suspects(a=7, b=2**31)]))

        assert keys(log, entry) == [b"a", b"b"]


class TestProducers:
    def emptied(self, log: Compacted, *producers: int, **changes: Any) -> list[int]:
        """The base offsets of batches that stay although all their records go."""
        parts = [
            part(log, slot, superseded=[offsets(*range(entry.offset_span))])
            for slot, entry in enumerate(log.partition.segments)
        ]
        producers_left = frozenset(producers)
        entry = rewritten(log, *parts, last_producers=producers_left, end_offset=99, **changes)
        if entry is None:
            return []
        data = bytes(log.partition.files.read(f"{DIRECTORY}/{entry.log_path}"))
        return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 61)]

    def log(self) -> Compacted:
        now = Compacted().now_ms
        one = [of_producer(keyed_batch("a", "b"), number, time=now) for number in (7, 8, 7)]
        return Compacted().put("x=0").add(*one).add(of_producer(keyed_batch("c"), 9, time=now))

    def test_keep_their_last_batch(self) -> None:
        log = self.log()

        assert self.emptied(log, 7) == [5]
        assert self.emptied(log, 8, 7, 9) == [3, 5, 7]

    def test_keep_none_when_a_later_segment_has_one(self) -> None:
        assert self.emptied(self.log()) == []

    def test_that_are_not_there_keep_nothing(self) -> None:
        assert self.emptied(self.log(), 5) == []

    @pytest.mark.parametrize(("more_ms", "kept"), [(0, [5]), (1, [])])
    def test_count_as_active_for_a_day(self, more_ms: int, kept: list[int]) -> None:
        log = self.log()
        now_ms = log.now_ms + PRODUCER_ID_EXPIRATION_MS + more_ms

        assert self.emptied(log, 7, now_ms=now_ms) == kept

    def test_do_not_count_by_their_markers(self) -> None:
        now = Compacted().now_ms
        log = Compacted().add(of_producer(keyed_batch("a"), time=now), marker(now))
        entry = written(log, part(log, superseded=[offsets(0)]), last_producers=frozenset({7}))

        assert (entry.batch_count, entry.record_count) == (2, 1)


class TestAborted:
    def test_records_go(self) -> None:
        lost = of_producer(keyed_batch("a=1"), attributes=TRANSACTIONAL)
        log = (
            Compacted()
            .put("x=0")
            .add(keyed_batch("b=1"), lost, marker(), aborted=(AbortedRange(7, 1, 2),))
        )
        entry = written(log, part(log, 1))

        assert keys(log, entry) == [b"b"]
        assert entry.aborted == ()


class TestFaults:
    @pytest.mark.parametrize("producers", [frozenset(), frozenset({7})])
    @pytest.mark.parametrize(("position", "why"), [(70, "the checks"), (16, "magic")])
    def test_damage_names_its_place(
        self, producers: frozenset[int], position: int, why: str
    ) -> None:
        log = Compacted().put("x=0").put("a=1", "b=1")
        path = log.partition.path(slot=1)
        log.partition.flip_byte(path, position)

        with pytest.raises(CorruptRecordError, match=f"^{path}, position 0, offset 1: {why}"):
            rewritten(log, part(log, 1), last_producers=producers)

    def test_a_damaged_record_under_a_right_checksum_names_its_place(self) -> None:
        log = Compacted().put("x=0").put("y=0").put("a=1", "b=1")
        path = log.partition.path(slot=2)
        data = bytearray(log.partition.bytes_of(path))
        data[61] ^= 0x40
        log.partition.put(path, bytes(Log(bytes(data)).fix_crc().data))

        with pytest.raises(CorruptRecordError, match=f"^{path}, position 0, offset 2: record 1 of"):
            rewritten(log, part(log, 2))

    def test_damage_of_a_later_window_names_its_place(self) -> None:
        log = Compacted().put("x=0")
        value = "x" * (WINDOW_BYTES // 10)
        log.put(*(f"{number:02}={value}" for number in range(12)), batch_bytes=1)
        path = log.partition.path(slot=1)
        data = log.partition.bytes_of(path)
        last = int(scan_batches(data).batches.position[-1])
        damaged = Log(data).put(last + 61, b"\x04").fix_crc(last)
        log.partition.put(path, bytes(damaged.data))

        with pytest.raises(CorruptRecordError, match=f", position {last}, offset 12: record 1 of"):
            rewritten(log, part(log, 1))

    def test_a_damaged_message_set_names_its_place(self) -> None:
        log = Compacted().put("x=0").add(message_set(1, 2, magic=1, codec="gzip"))
        path = log.partition.path(slot=1)
        log.partition.flip_byte(path, 40)

        with pytest.raises(CorruptRecordError, match=f"^{path}, position 0, offset 2: the checks"):
            rewritten(log, part(log, 1))

    @pytest.mark.parametrize("kind", ["create", "write", "close", "sync"])
    def test_an_unfinished_file_is_dropped(self, kind: str) -> None:
        log = Compacted().put("a=1").put("b=1")
        memory(log).fail_next(kind)

        with pytest.raises(StorageError, match=f"{kind} was told to fail"):
            rewritten(log, part(log), part(log, 1))
        assert not memory(log)._being_written
