import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparklog.record.batches import COLUMNS, BatchTable, Buffer, byte_view, with_offsets_raised
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches
from tests.golden import (
    APPEND_TIME,
    COMMIT_MARKER,
    COMPACTED,
    CREATE_TIME,
    EMPTIED,
    LOG_APPEND_TIME,
    MESSAGE_V1,
    MESSAGES_V0,
    T0,
    TRANSACTIONAL,
)

KINDS = CREATE_TIME + LOG_APPEND_TIME + TRANSACTIONAL + COMMIT_MARKER + COMPACTED


def table(data: bytes = KINDS) -> BatchTable:
    return scan_batches(data).batches


class TestFirstTimestamp:
    @pytest.mark.parametrize(
        ("batch", "time"),
        (
            (CREATE_TIME, T0),
            (LOG_APPEND_TIME, APPEND_TIME),
            (COMMIT_MARKER, T0),
            (MESSAGE_V1, T0),
            (MESSAGES_V0[:30], -1),
        ),
    )
    def test_is_that_of_the_first_record(self, batch: bytes, time: int) -> None:
        assert table(batch).first_timestamp.tolist() == [time]

    @pytest.mark.parametrize("batch", (COMPACTED, EMPTIED))
    def test_is_the_largest_where_the_base_timestamp_is_no_records(self, batch: bytes) -> None:
        batches = table(batch)

        assert batches.first_timestamp.tolist() == batches.max_timestamp.tolist()


class TestByteView:
    @pytest.mark.parametrize(
        "data",
        (
            b"abc",
            bytearray(b"abc"),
            memoryview(b"xabc")[1:],
            np.frombuffer(b"abc", np.int8),
            pa.py_buffer(b"abc"),
        ),
    )
    def test_shows_the_bytes_of_any_buffer_read_only(self, data: Buffer) -> None:
        view = byte_view(data)

        assert bytes(view) == b"abc"
        assert not view.flags.writeable

    def test_shows_a_mapped_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"abc")
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        ):
            seen = bytes(byte_view(mapped))

        assert seen == b"abc"

    def test_shows_no_bytes(self) -> None:
        assert len(byte_view(b"")) == 0

    def test_copies_nothing_and_leaves_its_array_writable(self) -> None:
        array = np.zeros(3, np.uint8)
        view = byte_view(array)
        array[0] = 7

        assert view[0] == 7


class TestColumns:
    def test_next_offset_and_end_position_follow_the_batch(self) -> None:
        batches = table()

        assert batches.next_offset.tolist() == [103, 103, 103, 201, 103]
        assert batches.end_position.tolist() == np.cumsum([99, 99, 99, 78, 96]).tolist()

    def test_flags_come_from_the_attributes(self) -> None:
        batches = table()

        assert batches.timestamp_type.tolist() == [0, 1, 0, 0, 0]
        assert batches.is_transactional.tolist() == [False, False, True, True, False]
        assert batches.is_control.tolist() == [False, False, False, True, False]
        assert batches.codec.tolist() == [0] * 5
        assert not batches.is_wrapper.any()

    def test_magic_0_has_no_timestamp_type(self) -> None:
        assert table(MESSAGES_V0 + MESSAGE_V1).timestamp_type.tolist() == [-1, -1, -1, 0]

    def test_a_compressed_message_is_a_wrapper_and_never_a_control_batch(self) -> None:
        message = bytearray(MESSAGE_V1)
        message[17] = 0x30 | 2
        batches = table(bytes(message) + MESSAGE_V1)

        assert batches.is_wrapper.tolist() == [True, False]
        assert not batches.is_control.any()


class TestTables:
    def test_an_empty_table_has_every_column(self) -> None:
        empty = BatchTable.empty()

        assert len(empty) == 0
        assert all(getattr(empty, name).dtype == np.int64 for name in COLUMNS)

    def test_slice_and_concat_undo_each_other(self) -> None:
        whole = table()
        again = BatchTable.concat([whole.slice(0, 2), whole.slice(2)])

        assert all(np.array_equal(getattr(whole, n), getattr(again, n)) for n in COLUMNS)

    def test_concat_of_nothing_is_empty(self) -> None:
        assert len(BatchTable.concat([])) == 0

    def test_take_chooses_by_mask_or_index(self) -> None:
        batches = table()

        assert batches.take(batches.is_control).base_offset.tolist() == [200]
        assert batches.take(np.array([3, 0])).base_offset.tolist() == [200, 100]


class TestCut:
    @pytest.mark.parametrize(
        ("behind", "sizes"),
        (
            ([0, 0, 0, 0], [5]),
            ([0, 1, 0, 1], [2, 2, 1]),
            ([True] * 4, [1] * 5),
            ([-3, 0, 0, 0], [1, 4]),
        ),
    )
    def test_parts_end_where_it_is_not_zero(self, behind: list[int], sizes: list[int]) -> None:
        parts = list(table().cut(np.array(behind)))

        assert [len(part) for part in parts] == sizes
        assert BatchTable.concat(parts).position.tolist() == table().position.tolist()


class TestWithOffsetsRaised:
    def test_changes_base_offsets_and_no_checksum(self) -> None:
        raised = with_offsets_raised(byte_view(KINDS), table().slice(1, 3), 2**40)
        found = table(raised.tobytes())

        verify_checksums(raised, found)
        assert found.base_offset.tolist() == (table().base_offset[1:3] + 2**40).tolist()
        assert found.size.tolist() == table().size[1:3].tolist()
