"""A segment that is a slice of a shared file answers as the same bytes in a file of its own."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError
from sparklog.indexes import indexes_of
from sparklog.log.lookup import batch_from, first_at_or_after, newest
from sparklog.log.names import LOG_SUFFIX, SHARED
from sparklog.log.salvage import Damage, sound_windows
from sparklog.log.windows import LOOKUP_BYTES, SegmentLog
from sparklog.log_reader.kept import KeptSegments
from sparklog.log_reader.opened import log_path, opened
from sparklog.log_reader.raw import raw_batches
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.state.image import Slice
from sparklog.model import SegmentEntry
from sparklog.storage.memory import MemoryFiles
from tests.naive.records import rows
from tests.partitions import DIRECTORY, Partition, batch, partitions

PATH = f"{SHARED}/a{LOG_SUFFIX}"
FOREIGN = (b"", b"\0" * 70, b"noise", batch(1, 2)(0), batch(3)(10**9))
"""Bytes around a slice: none, zeros, no batch, batches of other partitions."""


def slice_of(
    partition: Partition, slot: int = 0, before: bytes = b"", after: bytes = b""
) -> tuple[MemoryFiles, SegmentEntry]:
    """A segment's bytes within a shared file, and its row there: without indexes."""
    entry, files = partition.segments[slot], MemoryFiles()
    files.write_new(PATH, before + partition.bytes_of(partition.path(slot=slot)) + after)
    return files, entry._replace(
        log_path=PATH,
        log_position=len(before),
        index_path=None,
        index_bytes=None,
        time_index_path=None,
        time_index_bytes=None,
    )


def own_file(partition: Partition, slot: int = 0) -> tuple[MemoryFiles, SegmentEntry]:
    """The same row, but of the file that the bytes lie in alone."""
    files, entry = slice_of(partition, slot)
    own = partition.segments[slot].log_path
    files.write_new(f"{DIRECTORY}/{own}", files.read(PATH))
    return files, entry._replace(log_path=own)


def answer(question: Any, start: int = 0) -> Any:
    """The answer, or the error with its position behind the start of the slice."""
    try:
        return question()
    except CorruptRecordError as error:
        position = None if error.position is None else error.position - start
        return error.args[0], position, error.offset


def lookups(segment: SegmentLog) -> Iterator[Any]:
    """Every offset and some times, and the windows that are sound."""
    entry = segment.entry
    for offset in range(entry.base_offset, entry.next_offset):
        yield answer(lambda offset=offset: (batch_from(segment, offset) or [0])[1:])
    for time in range(-1, 11):
        yield answer(lambda time=time: first_at_or_after(segment, time, entry.base_offset))
    yield answer(lambda: newest(segment, entry.base_offset))
    for part in sound_windows(segment):
        yield part if isinstance(part, Damage) else part.batches.position + part.position


def reads(files: MemoryFiles, entry: SegmentEntry) -> Iterator[Any]:
    """Its records, its batches as they lie there, and its indexes."""
    piece, start = [Slice(entry, entry.base_offset, entry.next_offset)], entry.log_position
    yield answer(lambda: [rows(some) for some in read_slices(files, DIRECTORY, piece)], start)
    yield answer(lambda: b"".join(raw_batches(files, DIRECTORY, piece, 2**30)), start)
    yield answer(lambda: indexes_of(files, DIRECTORY, entry, 0), start)


def everything(files: MemoryFiles, entry: SegmentEntry) -> list[str]:
    segment = opened(files, DIRECTORY, entry)
    kept = KeptSegments(files).opened(DIRECTORY, entry)
    return [repr(one) for one in (*lookups(segment), *lookups(kept), *reads(files, entry))]


class TestSlice:
    @given(partitions(), st.sampled_from(FOREIGN), st.sampled_from(FOREIGN), st.data())
    def test_answers_as_a_file_of_its_own(
        self, partition: Partition, before: bytes, after: bytes, data: st.DataObject
    ) -> None:
        """Goal: bytes around a slice are never seen. Method: any segment, sound, damaged or cut."""
        for slot in range(len(partition.segments)):
            path = partition.path(slot=slot)
            position = data.draw(st.integers(0, len(partition.bytes_of(path)) - 1))
            partition.flip_byte(path, position, data.draw(st.sampled_from((0, 1, 0xFF))))

            found = everything(*slice_of(partition, slot, before, after))

            assert found == everything(*own_file(partition, slot))

    @pytest.mark.parametrize(("position", "length"), ((0, 99), (7, 99), (99, 5), (3, 4), (10, 0)))
    def test_is_read_no_further_than_it_goes(self, position: int, length: int) -> None:
        partition = Partition().append(batch(1))
        data = partition.bytes_of(partition.path())
        files, entry = slice_of(partition, 0, b"before", b"after" * 99)

        for segment in (
            opened(files, DIRECTORY, entry),
            KeptSegments(files).opened(DIRECTORY, entry),
        ):
            assert bytes(segment.read(position, length)) == data[position : position + length]

    def test_is_looked_up_without_reading_more_than_it_has(self) -> None:
        partition = Partition().append(*(batch(n, size=20_000) for n in range(12)))
        files, entry = slice_of(partition, 0, bytes(2**20), bytes(2**20))
        taken: list[int] = []
        segment = opened(files, DIRECTORY, entry)

        def read(position: int, length: int) -> Any:
            taken.append(length)
            return segment.read(position, length)

        found = first_at_or_after(replace(segment, read=read), 11, 0)

        assert found == (11, 11)
        assert sum(taken) <= entry.log_bytes + LOOKUP_BYTES + 2 * 20_000

    def test_has_its_path_beside_the_topics(self) -> None:
        partition = Partition().append(batch(1))

        assert log_path(DIRECTORY, slice_of(partition)[1]) == PATH
        assert log_path(DIRECTORY, partition.segments[0]) == partition.path()

    def test_is_another_segment_than_its_neighbours_in_the_file(self) -> None:
        _, first = slice_of(Partition().append(batch(1)))
        second = first._replace(log_position=first.log_bytes, base_offset=1, next_offset=2)
        image = Partition().commit(segments=[first, second]).image

        assert image.find([first.key]) == {first.key: first}
