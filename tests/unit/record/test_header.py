from hypothesis import given
from hypothesis import strategies as st

from sparklog.record.batches import COLUMNS, byte_view
from sparklog.record.header import unpack_header
from sparklog.record.scan import scan_batches
from tests.golden import COMMIT_MARKER, CREATE_TIME, T0


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
