import struct
import zlib

import google_crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError
from sparklog.log.recovery import Recovery, recover
from sparklog.record.layout import BATCH_HEADER_SIZE, LENGTH, MAGIC
from sparklog.record.scan import scan_batches
from tests.log_language import flip_byte, log_of
from tests.naive import log as naive
from tests.naive.log import Batch

LOG = log_of([10, 30], [20], [5, 5, 5], [30])
STARTS = scan_batches(LOG).batches.position.tolist()
FIRST_OFFSETS = [0, 2, 3, 6]


def problem_of(recovery: Recovery) -> CorruptRecordError:
    assert recovery.problem is not None
    return recovery.problem


def message(offset: int, value: bytes, magic: int = 0) -> bytes:
    """A plain entry of a message set without a key."""
    time = struct.pack(">q", 7) if magic else b""
    body = struct.pack(">bb", magic, 0) + time + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


class TestSoundFile:
    def test_is_valid_to_its_end(self) -> None:
        recovery = recover(LOG, 0, partition=3)

        assert recovery.problem is None
        assert not recovery.torn
        assert recovery.valid_bytes == recovery.summary.log_bytes == len(LOG)
        assert (recovery.summary.partition, recovery.summary.batch_count) == (3, 4)
        assert (recovery.summary.file_next_offset, recovery.summary.record_count) == (7, 7)
        assert (recovery.summary.max_timestamp, recovery.summary.max_timestamp_delta) == (30, 1)
        assert recovery.summary.log_crc32c == google_crc32c.value(bytes(LOG))
        assert recovery.summary.min_timestamp is None

    @pytest.mark.parametrize("expected_bytes", (None, 0))
    def test_may_be_empty(self, expected_bytes: int | None) -> None:
        recovery = recover(b"", 40, expected_bytes=expected_bytes)

        assert (recovery.valid_bytes, recovery.problem) == (0, None)
        assert recovery.summary.file_next_offset == 40
        assert recovery.indexes == (b"", b"")

    def test_gets_the_indexes_of_the_rule(self) -> None:
        data = log_of(*[[time] for time in (3, 9, 9, 4, 11, 2)], base=50, value=b"v" * 3000)
        found = scan_batches(data).batches
        batches = [
            Batch(*row)
            for row in zip(
                found.last_offset.tolist(),
                found.max_timestamp.tolist(),
                found.size.tolist(),
                strict=True,
            )
        ]

        assert recover(data, 50).indexes == naive.index_files(batches, 50, 4096)
        assert recover(data, 50, 0).indexes == naive.index_files(batches, 50, 0)

    def test_may_mix_formats(self) -> None:
        data = message(0, b"a") + message(1, b"b", magic=1) + bytes(log_of([5], base=2))

        assert recover(data, 0).problem is None
        assert recover(data, 0).summary.record_count == 3


class TestTornTail:
    @example(cut=1)
    @example(cut=16)
    @example(cut=17)
    @given(st.integers(1, len(LOG) - 1))
    def test_a_batch_cut_by_the_end_of_the_file(self, cut: int) -> None:
        """Goal: whole batches before the cut are kept, no more. Method: cut at any byte."""
        recovery = recover(LOG[:cut], 0)

        kept = max(start for start in [*STARTS, len(LOG)] if start <= cut)
        assert recovery.valid_bytes == kept
        assert recovery.torn is (kept < cut)
        assert (recovery.problem is None) is (kept == cut)

    @pytest.mark.parametrize("count", (1, 16, 17, 4096))
    def test_zeros_to_the_end_of_the_file(self, count: int) -> None:
        recovery = recover(LOG + bytes(count), 0)

        assert (recovery.valid_bytes, recovery.torn) == (len(LOG), True)
        assert problem_of(recovery).position == len(LOG)
        assert problem_of(recovery).offset == 7

    def test_in_a_first_batch_begins_at_the_base_offset(self) -> None:
        problem = problem_of(recover(log_of([1], base=40)[:-1], 40))

        assert (problem.position, problem.offset) == (0, 40)


class TestCorruption:
    @pytest.mark.parametrize("slot", range(4))
    def test_a_checksum_that_differs(self, slot: int) -> None:
        recovery = recover(flip_byte(LOG, STARTS[slot] + BATCH_HEADER_SIZE), 0)

        assert (recovery.valid_bytes, recovery.torn) == (STARTS[slot], False)
        assert recovery.summary.batch_count == slot
        assert problem_of(recovery).position == STARTS[slot]
        assert problem_of(recovery).offset == FIRST_OFFSETS[slot]
        assert "checksum" in str(problem_of(recovery))

    def test_the_first_of_several_damages_counts(self) -> None:
        damaged = flip_byte(flip_byte(LOG, STARTS[3] + MAGIC), STARTS[1] + BATCH_HEADER_SIZE)

        assert recover(damaged, 0).valid_bytes == STARTS[1]

    def test_the_first_of_several_damages_counts_when_formats_are_mixed(self) -> None:
        old, new = message(0, b"a"), bytes(log_of([5], base=1))
        damaged = flip_byte(flip_byte(bytearray(old + new), len(old) - 1), len(old) + len(new) - 1)

        recovery = recover(damaged, 0)

        assert (recovery.valid_bytes, problem_of(recovery).position) == (0, 0)

    def test_a_magic_that_no_format_has(self) -> None:
        recovery = recover(flip_byte(LOG, STARTS[2] + MAGIC), 0)

        assert (recovery.valid_bytes, recovery.torn) == (STARTS[2], False)
        assert "magic" in str(problem_of(recovery))

    def test_a_size_too_small_for_a_batch(self) -> None:
        damaged = bytearray(LOG)
        damaged[STARTS[1] + LENGTH : STARTS[1] + LENGTH + 4] = struct.pack(">i", 48)

        recovery = recover(damaged, 0)

        assert (recovery.valid_bytes, recovery.torn) == (STARTS[1], False)
        assert "size 48" in str(problem_of(recovery))

    def test_zeros_with_more_data_behind_them(self) -> None:
        recovery = recover(LOG + bytes(100) + LOG, 0)

        assert (recovery.valid_bytes, recovery.torn) == (len(LOG), False)

    @pytest.mark.parametrize("base", (0, 6, 7 + 2**31))
    def test_offsets_that_do_not_follow(self, base: int) -> None:
        recovery = recover(LOG + log_of([1], base=base), 0)

        assert (recovery.valid_bytes, recovery.torn) == (len(LOG), False)
        assert problem_of(recovery).offset == base
        assert "where 7 or more is due" in str(problem_of(recovery))

    def test_a_first_offset_below_the_base_of_the_file(self) -> None:
        assert problem_of(recover(LOG, 1)).position == 0

    @given(st.integers(0, len(LOG) - 1), st.integers(1, 255))
    def test_every_single_byte_but_the_epochs_is_covered(self, position: int, flip: int) -> None:
        """Goal: no damage passes. Method: any byte changed; a leader epoch has no checksum.

        A base offset has none either, but then offsets do not follow, or leave a gap that
        compaction could have left.
        """
        damaged = bytearray(LOG)
        damaged[position] ^= flip
        slot = max(slot for slot, start in enumerate(STARTS) if start <= position)

        recovery = recover(damaged, 0)

        unprotected = position - STARTS[slot] in {*range(8), *range(12, 16)}
        assert recovery.problem is not None or unprotected
        assert recovery.problem is None or recovery.valid_bytes in {
            STARTS[slot],
            *STARTS[slot + 1 : slot + 2],
        }


class TestCommittedFile:
    def test_is_sound_at_its_size(self) -> None:
        assert recover(LOG, 0, expected_bytes=len(LOG)).problem is None

    def test_a_cut_batch_is_corruption(self) -> None:
        recovery = recover(LOG[:-1], 0, expected_bytes=len(LOG))

        assert (recovery.valid_bytes, recovery.torn) == (STARTS[3], False)
        assert f"has {len(LOG) - 1} bytes, the manifest says {len(LOG)}; trunc" in str(
            problem_of(recovery)
        )

    def test_a_file_cut_between_two_batches_is_corruption(self) -> None:
        recovery = recover(LOG[: STARTS[2]], 0, expected_bytes=len(LOG))

        assert (recovery.valid_bytes, recovery.torn) == (STARTS[2], False)
        assert problem_of(recovery).position == STARTS[2]
        assert problem_of(recovery).offset == 3

    @pytest.mark.parametrize("tail", (b"\0", bytes(100), bytes(LOG)))
    def test_bytes_behind_its_end_are_corruption(self, tail: bytes) -> None:
        recovery = recover(LOG + tail, 0, expected_bytes=len(LOG))

        assert (recovery.valid_bytes, recovery.torn) == (len(LOG), False)
        assert "the manifest says" in str(problem_of(recovery))

    def test_zeros_in_place_of_its_last_batch_are_corruption(self) -> None:
        zeroed = LOG[: STARTS[3]] + bytes(len(LOG) - STARTS[3])

        recovery = recover(zeroed, 0, expected_bytes=len(LOG))

        assert (recovery.valid_bytes, recovery.torn) == (STARTS[3], False)
