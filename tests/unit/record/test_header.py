import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError, UnsupportedCodecError
from sparklog.model import Codec, TimestampType
from sparklog.record import layout
from sparklog.record.batches import COLUMNS
from sparklog.record.header import read_header
from sparklog.record.scan import scan_batches
from tests.golden import (
    COMMIT_MARKER,
    COMPACTED,
    CREATE_TIME,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_V1,
    T0,
)


class TestReadHeader:
    def test_reads_what_kafka_wrote(self) -> None:
        header = read_header(CREATE_TIME)

        assert header == (100, 87, 5, 2, 0x57FD8BED, 0, 2, T0, T0 + 5, -1, -1, -1, 3)
        assert (header.size, header.last_offset, header.next_offset) == (99, 102, 103)
        assert (header.codec, header.timestamp_type) == (Codec.NONE, TimestampType.CREATE_TIME)
        assert header.delete_horizon_ms is None

    def test_reads_at_a_position(self) -> None:
        header = read_header(CREATE_TIME + COMMIT_MARKER, len(CREATE_TIME))

        assert header.base_offset == 200
        assert header.is_control
        assert header.is_transactional

    def test_tells_append_time_and_delete_horizon(self) -> None:
        assert read_header(LOG_APPEND_TIME).timestamp_type == TimestampType.LOG_APPEND_TIME
        assert read_header(COMPACTED).delete_horizon_ms == DELETE_HORIZON

    def test_plain_batches_are_neither_control_nor_transactional(self) -> None:
        header = read_header(CREATE_TIME)

        assert not header.is_control
        assert not header.is_transactional

    def test_needs_no_records(self) -> None:
        assert read_header(CREATE_TIME[: layout.BATCH_HEADER_SIZE]).record_count == 3

    @pytest.mark.parametrize(("data", "position"), ((CREATE_TIME[:60], 0), (CREATE_TIME, 200)))
    def test_refuses_too_few_bytes(self, data: bytes, position: int) -> None:
        with pytest.raises(CorruptRecordError, match="truncated") as caught:
            read_header(data, position)

        assert caught.value.position == position

    def test_refuses_another_magic(self) -> None:
        with pytest.raises(CorruptRecordError, match="magic 1"):
            read_header(MESSAGE_V1.ljust(61))

    def test_refuses_a_length_below_that_of_an_empty_batch(self) -> None:
        batch = bytearray(CREATE_TIME)
        batch[8:12] = (48).to_bytes(4, "big")

        with pytest.raises(CorruptRecordError, match="length 48 is below 49"):
            read_header(batch)

    @given(st.binary(min_size=61, max_size=61))
    def test_agrees_with_the_kernel_on_any_bytes(self, noise: bytes) -> None:
        """Goal: one truth about headers. Method: any 61 bytes made a batch, read both ways."""
        data = bytearray(noise)
        data[8:12] = (49).to_bytes(4, "big")
        data[16] = 2
        header, batches = read_header(data), scan_batches(data).batches

        shared = set(header._fields) & set(COLUMNS)
        assert shared == set(COLUMNS) - {"position", "size", "last_offset"}
        assert {n: getattr(header, n) for n in shared} == {
            n: getattr(batches, n).item() for n in shared
        }
        assert header.size == batches.size.item()


class TestCodec:
    @pytest.mark.parametrize("codec", tuple(Codec))
    def test_is_the_low_three_bits(self, codec: Codec) -> None:
        header = read_header(CREATE_TIME)._replace(attributes=0x78 | codec)

        assert header.codec is codec

    @pytest.mark.parametrize("bits", (5, 6, 7))
    def test_refuses_undefined_bits(self, bits: int) -> None:
        header = read_header(CREATE_TIME)._replace(attributes=bits)

        with pytest.raises(UnsupportedCodecError, match=f"codec bits {bits}") as caught:
            _ = header.codec

        assert caught.value.offset == 100
