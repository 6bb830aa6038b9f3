"""Slices joined at once, against the same batches moved one by one; and those that are not joined.

Goal: the bytes are those that the copy of one slice after another makes. Method: random slices in
shared segments with other bytes between them; a naive walk through batches.
"""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.maintenance.merging.joined_slices import JOINED_BYTES_MAX, Joined, joined, runs
from sparklog.maintenance.merging.spans import Spans
from sparklog.model import SHARED_PREFIX, SegmentEntry
from sparklog.record.checksum import crc32c
from sparklog.storage.memory import MemoryFiles
from tests.edits import segment
from tests.partitions import Piece, batch, message_set

BETWEEN = b"another partition's"


class Slices:
    """Slices that follow each other in the log, each in a shared segment of its own."""

    def __init__(self, *slices: list[Piece], first: int = 100) -> None:
        self.files = MemoryFiles()
        self.entries: list[SegmentEntry] = []
        for number, pieces in enumerate(slices):
            data = b"".join(piece(at) for at, piece in enumerate(pieces))
            path = f"{SHARED_PREFIX}{number}.log"
            self.files.write_new(path, BETWEEN + data + BETWEEN)
            self.entries.append(
                segment(
                    records=len(pieces),
                    log_path=path,
                    log_position=len(BETWEEN),
                    log_bytes=len(data),
                    log_crc32c=crc32c(data),
                    record_count=len(pieces),
                    min_timestamp=number + 5,
                )._replace(base_offset=first, next_offset=first + len(pieces))
            )
            first += len(pieces)

    def but(self, number: int, **columns: Any) -> "Slices":
        """Let a row say something else."""
        self.entries[number] = self.entries[number]._replace(**columns)
        return self

    def flip(self, number: int) -> "Slices":
        """Damage the last byte of a slice; its row has no checksum."""
        entry = self.entries[number]
        data = bytearray(self.files.read(entry.log_path))
        data[entry.log_position + entry.log_bytes - 1] ^= 1
        self.files.delete(entry.log_path)
        self.files.write_new(entry.log_path, data)
        return self.but(number, log_crc32c=None)

    def joined(self) -> Joined | None:
        return joined(Spans(self.files, [self.entries]), self.entries)

    def moved_one_by_one(self) -> bytes:
        out = bytearray()
        for entry in self.entries:
            data = self.files.read(entry.log_path, entry.log_position, entry.log_bytes)
            at = 0
            while at < len(data):
                offset, length = struct.unpack_from(">qi", data, at)
                out += struct.pack(">q", offset + entry.shift) + data[at + 8 : at + 12 + length]
                at += 12 + length
        return bytes(out)


def two() -> Slices:
    return Slices([batch(1), batch(2)], [batch(3)])


class TestJoined:
    @given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.integers(0, 2**40))
    def test_has_the_bytes_of_one_after_another(self, counts: list[int], first: int) -> None:
        slices = Slices(*([batch(at) for at in range(count)] for count in counts), first=first)

        found = slices.joined()

        assert found is not None
        assert bytes(found.data) == slices.moved_one_by_one()
        assert found.batches.base_offset.tolist() == [*range(first, first + sum(counts))]
        assert found.min_timestamp == 5

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda slices: slices.but(1, log_bytes=10_000),
            lambda slices: slices.but(0, log_crc32c=1),
            lambda slices: slices.flip(0),
            lambda slices: slices.but(1, base_offset=103, next_offset=104),
            lambda slices: slices.but(1, next_offset=104),
            lambda slices: slices.but(1, log_bytes=40, log_crc32c=None),
        ],
        ids=["cut", "checksum", "flipped", "gap", "end", "torn batch"],
    )
    def test_is_not_what_its_rows_do_not_say(self, spoil: Callable[[Slices], Slices]) -> None:
        assert spoil(two()).joined() is None

    def test_is_not_a_slice_that_ends_within_a_batch(self) -> None:
        slices = two()
        entry = slices.entries[0]
        half = entry.log_bytes // 2 - 1
        slices.but(0, log_bytes=half, log_crc32c=None)
        rest = entry._replace(
            log_position=entry.log_position + half,
            log_bytes=entry.log_bytes - half,
            log_crc32c=None,
        )
        slices.entries.insert(1, rest)

        assert slices.joined() is None

    def test_is_not_a_message_set(self) -> None:
        assert Slices([message_set(1, magic=1)], [batch(2)]).joined() is None


class TestRuns:
    def test_are_slices_in_a_row(self) -> None:
        slices = two().entries
        whole = segment(record_count=10, min_timestamp=1)

        found = list(runs([whole, *slices, whole, slices[0]]))

        assert found == [[whole], slices, [whole], [slices[0]]]

    def test_leave_alone_what_may_have_gaps(self) -> None:
        first, second = two().entries
        unknown = second._replace(min_timestamp=None)
        assert list(runs([first, unknown])) == [[first], [unknown]]

    def test_are_as_long_as_memory_allows(self) -> None:
        first, second = two().but(1, log_bytes=JOINED_BYTES_MAX).entries
        assert list(runs([first, first, second])) == [[first, first], [second]]

    def test_of_nothing_are_none(self) -> None:
        assert list(runs([])) == []
