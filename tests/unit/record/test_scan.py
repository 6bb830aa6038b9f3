from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.record import layout
from sparklog.record import scan as module
from sparklog.record.batches import COLUMNS, NUM_COLUMNS, byte_view
from sparklog.record.kernels import columns
from sparklog.record.scan import scan_batches, unpack_header
from tests.golden import (
    COMMIT_MARKER,
    CREATE_TIME,
    EMPTIED,
    MESSAGE_V1,
    MESSAGES_V0,
    T0,
    TRANSACTIONAL,
)

MIXED = CREATE_TIME + MESSAGES_V0 + MESSAGE_V1 + COMMIT_MARKER + EMPTIED
WHOLE = (CREATE_TIME, MESSAGES_V0[:30], MESSAGE_V1, COMMIT_MARKER, EMPTIED, TRANSACTIONAL)


def naive_walk(data: bytes) -> Iterator[tuple[int, int]]:
    """(position, size) of every whole entry, byte by byte."""
    least, start = {0: 14, 1: 22, 2: 49}, 0
    while len(data) - start >= 17:
        size = int.from_bytes(data[start + 8 : start + 12], "big", signed=True)
        magic, end = data[start + 16], start + 12 + size
        if magic > 2 or size < least[magic] or end > len(data):
            return
        yield start, 12 + size
        start = end


class TestFields:
    def test_kernel_columns_are_those_of_the_table(self) -> None:
        names = [name.lower() for name in vars(columns) if name.isupper()]

        assert names == list(COLUMNS)
        assert len(names) == NUM_COLUMNS

    def test_reads_every_field_of_a_batch(self) -> None:
        batches = scan_batches(b"##" + TRANSACTIONAL, 2).batches

        assert {name: getattr(batches, name).tolist() for name in COLUMNS} == {
            "position": [2],
            "size": [99],
            "base_offset": [100],
            "last_offset": [102],
            "record_count": [3],
            "base_timestamp": [T0],
            "max_timestamp": [T0 + 5],
            "attributes": [layout.TRANSACTIONAL_MASK],
            "magic": [2],
            "leader_epoch": [5],
            "producer_id": [7],
            "producer_epoch": [2],
            "base_sequence": [10],
        }

    def test_a_message_counts_one_record_and_lacks_the_rest(self) -> None:
        batches = scan_batches(MESSAGES_V0 + MESSAGE_V1).batches

        assert batches.base_offset.tolist() == [100, 101, 102, 100]
        assert batches.last_offset.tolist() == [100, 101, 102, 100]
        assert batches.record_count.tolist() == [1, 1, 1, 1]
        assert batches.max_timestamp.tolist() == [-1, -1, -1, T0]
        assert batches.base_timestamp.tolist() == [-1, -1, -1, T0]
        for name in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
            assert getattr(batches, name).tolist() == [-1] * 4, name

    def test_a_compressed_wrapper_has_an_unknown_number_of_records(self) -> None:
        wrapper = bytearray(MESSAGE_V1)
        wrapper[layout.LEGACY_ATTRIBUTES] = 1

        assert scan_batches(wrapper).batches.record_count.tolist() == [-1]

    def test_an_offset_beyond_int64_wraps_as_in_java(self) -> None:
        batch = bytearray(CREATE_TIME)
        batch[:8] = (2**63 - 1).to_bytes(8, "big")

        assert scan_batches(batch).batches.last_offset.tolist() == [-(2**63) + 1]


class TestWalk:
    def test_takes_mixed_formats_to_the_end(self) -> None:
        scan = scan_batches(MIXED)

        assert scan.batches.magic.tolist() == [2, 0, 0, 0, 1, 2, 2]
        assert (scan.end, scan.problem) == (len(MIXED), None)

    @pytest.mark.parametrize("start", (0, 5))
    def test_finds_nothing_in_no_bytes(self, start: int) -> None:
        scan = scan_batches(b"", start)

        assert (len(scan.batches), scan.end, scan.problem) == (0, start, None)

    def test_looks_no_further_than_end(self) -> None:
        scan = scan_batches(MIXED, 0, len(CREATE_TIME))

        assert (len(scan.batches), scan.end, scan.problem) == (1, len(CREATE_TIME), None)

    def test_an_end_beyond_the_data_is_the_end_of_the_data(self) -> None:
        assert scan_batches(CREATE_TIME, 0, 10**6).problem is None

    def test_goes_on_when_there_are_more_batches_than_one_step_takes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_STEP", 2)
        scan = scan_batches(MIXED)

        assert scan.batches.position.tolist() == [at for at, _ in naive_walk(MIXED)]
        assert scan.problem is None

    @given(st.lists(st.sampled_from(WHOLE), max_size=6), st.binary(max_size=40), st.data())
    def test_agrees_with_a_byte_by_byte_walk(
        self, parts: list[bytes], tail: bytes, choice: st.DataObject
    ) -> None:
        """Goal: never a batch too many. Method: whole entries, any tail, any byte changed."""
        data = bytearray(b"".join(parts) + tail)
        if data:
            at = choice.draw(st.integers(0, len(data) - 1))
            data[at] = choice.draw(st.integers(0, 255))
        scan = scan_batches(data)
        expected = list(naive_walk(bytes(data)))

        found = zip(scan.batches.position.tolist(), scan.batches.size.tolist(), strict=True)
        assert list(found) == expected
        assert scan.end == sum(size for _, size in expected)
        assert (scan.problem is None) == (scan.end == len(data))


class TestProblems:
    @pytest.mark.parametrize("size", range(1, 17))
    def test_a_stump_too_short_for_size_and_magic_is_truncated(self, size: int) -> None:
        scan = scan_batches(CREATE_TIME + COMMIT_MARKER[:size])

        assert scan.problem == f"truncated: {size} bytes are left, 17 tell size and magic"
        assert scan.end == len(CREATE_TIME)

    def test_a_batch_that_goes_beyond_the_end_is_truncated(self) -> None:
        scan = scan_batches(CREATE_TIME + COMMIT_MARKER[:-1])

        assert scan.problem == "truncated: 77 bytes are left of a batch of 78"

    def test_zeros_have_an_impossible_size(self) -> None:
        assert list(naive_walk(bytes(99))) == []
        assert scan_batches(bytes(99)).problem == "size 0 is below 14, the least for magic 0"

    @pytest.mark.parametrize(
        ("magic", "size", "least"), ((0, 13, 14), (1, 21, 22), (2, 48, 49), (2, -1, 49))
    )
    def test_a_size_below_the_least_of_its_magic(self, magic: int, size: int, least: int) -> None:
        data = bytearray(99)
        data[8:12] = size.to_bytes(4, "big", signed=True)
        data[16] = magic

        assert scan_batches(data).problem == (
            f"size {size} is below {least}, the least for magic {magic}"
        )

    @pytest.mark.parametrize("magic", (3, 127, 128, 255))
    def test_an_unknown_magic(self, magic: int) -> None:
        data = bytearray(CREATE_TIME)
        data[16] = magic

        assert scan_batches(data).problem == f"magic {magic} is not 0, 1 or 2"

    def test_is_about_the_stretch_that_was_asked_for(self) -> None:
        scan = scan_batches(MIXED, 0, len(CREATE_TIME) + 29)

        assert scan.problem == "truncated: 29 bytes are left of a batch of 30"


class TestLimits:
    @pytest.mark.parametrize(
        ("max_bytes", "count"), ((0, 1), (99, 1), (197, 1), (198, 2), (296, 2), (297, 3))
    )
    def test_bytes_are_not_exceeded_but_by_the_first_batch(
        self, max_bytes: int, count: int
    ) -> None:
        scan = scan_batches(CREATE_TIME * 3, max_bytes=max_bytes)

        assert (len(scan.batches), scan.end, scan.problem) == (count, 99 * count, None)

    def test_count_from_the_start(self) -> None:
        scan = scan_batches(CREATE_TIME * 3, 99, max_bytes=99)

        assert scan.batches.position.tolist() == [99]

    def test_hold_across_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_STEP", 1)
        scan = scan_batches(CREATE_TIME * 4, max_bytes=2 * 99 + 98)

        assert len(scan.batches) == 2


class TestUnpackHeader:
    def test_reads_what_kafka_wrote(self) -> None:
        header = unpack_header(byte_view(CREATE_TIME), 0)

        assert header == (100, 87, 5, 2, 0x57FD8BED, 0, 2, T0, T0 + 5, -1, -1, -1, 3)
        assert (header.size, header.last_offset) == (99, 102)
        assert not header.is_control

    def test_reads_at_a_position(self) -> None:
        header = unpack_header(byte_view(CREATE_TIME + COMMIT_MARKER), len(CREATE_TIME))

        assert header.base_offset == 200
        assert header.is_control

    @given(st.binary(min_size=61, max_size=61))
    def test_agrees_with_the_kernel_on_any_bytes(self, noise: bytes) -> None:
        """Goal: one truth about headers. Method: any 61 bytes made a batch, read both ways."""
        data = bytearray(noise)
        data[8:12] = (49).to_bytes(4, "big")
        data[16] = 2
        header, batches = unpack_header(byte_view(data), 0), scan_batches(data).batches

        shared = set(header._fields) & set(COLUMNS)
        assert shared == set(COLUMNS) - {"position", "size", "last_offset"}
        assert {n: getattr(header, n) for n in shared} == {
            n: getattr(batches, n).item() for n in shared
        }
        assert header.size == batches.size.item()
