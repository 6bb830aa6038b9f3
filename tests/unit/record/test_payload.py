import numpy as np
import pytest

from sparklog.errors import CorruptRecordError, UnsupportedCodecError, UsageError
from sparklog.model import Codec
from sparklog.record import columns, payload
from sparklog.record.batches import BatchTable
from sparklog.record.payload import at_batch, decompress_all
from sparklog.record.scan import scan_batches
from tests import golden
from tests.damage import raw_batch
from tests.strategies import compressed


def opened(*batches: bytes, max_bytes: int | None = None) -> tuple[bytes, list[int], list[int]]:
    """The decompressed records of these v2 batches, and where those of each begin and end."""
    data = np.frombuffer(b"".join(batches), np.uint8)
    table = scan_batches(data).batches
    plain, starts, ends = decompress_all(
        data, table, table.position + 61, table.end_position, max_bytes
    )
    return plain.tobytes(), starts.tolist(), ends.tolist()


def batch(body: bytes, codec: Codec) -> bytes:
    return compressed(raw_batch(body, 1, base=5, attributes=int(codec)), codec)


class TestDecompressAll:
    def test_holds_streams_of_all_codecs_one_after_another(self) -> None:
        bodies = [bytes([codec]) * (codec + 1) for codec in Codec]
        batches = [batch(body, codec) for body, codec in zip(bodies, Codec, strict=True)]

        assert opened(*batches) == (b"".join(bodies), [0, 1, 3, 6, 10], [1, 3, 6, 10, 15])

    def test_may_be_empty(self) -> None:
        assert opened() == (b"", [], [])

    def test_takes_a_batch_of_just_the_limit(self) -> None:
        assert opened(batch(bytes(9), Codec.ZSTD), max_bytes=9) == (bytes(9), [0], [9])

    def test_refuses_more_and_says_which_batch(self) -> None:
        first, second = batch(b"1", Codec.GZIP), batch(bytes(10), Codec.ZSTD)

        with pytest.raises(CorruptRecordError, match="above 9 bytes") as caught:
            opened(first, second, max_bytes=9)
        assert (caught.value.position, caught.value.offset) == (len(first), 5)

    def test_has_a_limit_when_none_is_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(payload, "BATCH_BYTES_MAX", 9)

        with pytest.raises(CorruptRecordError, match="above 9 bytes"):
            opened(batch(bytes(10), Codec.LZ4))

    def test_stops_where_arrow_arrays_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(columns, "COLUMN_BYTES_MAX", 17)

        with pytest.raises(UsageError, match=r"hold 18 bytes .* or more; .* fewer batches"):
            opened(*[batch(bytes(9), Codec.ZSTD)] * 3)

    def test_limits_each_batch_and_not_all_together(self) -> None:
        assert opened(*[batch(bytes(9), Codec.SNAPPY)] * 3, max_bytes=9)[2] == [9, 18, 27]


class TestAtBatch:
    def test_keeps_what_was_wrong_and_its_class(self) -> None:
        table: BatchTable = scan_batches(golden.COMPACTED + golden.CREATE_TIME).batches
        error = at_batch(UnsupportedCodecError("codec bits 7"), table, 1)

        assert isinstance(error, UnsupportedCodecError)
        assert str(error) == f"position {len(golden.COMPACTED)}, offset 100: codec bits 7"
