"""What Hypothesis draws from: records and logs over everything the wire can say."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st

from sparklog.model import Codec
from sparklog.record.codecs.compression import compress
from tests.damage import sparse_batch
from tests.naive import messages
from tests.naive.records import Headers, Record

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
SIZE_EDGES = (0, 1, 63, 64, 8191, 8192, 70_000)
"""Where the varint of a size takes another byte, and more than a block of a codec."""


def fields(largest: int = SIZE_EDGES[-1]) -> st.SearchStrategy[bytes | None]:
    """Keys and values: null, empty, short, and long ones."""
    edges = [bytes(size) for size in SIZE_EDGES if size <= largest]
    return st.one_of(st.none(), st.binary(max_size=24), st.sampled_from(edges))


def timestamps() -> st.SearchStrategy[int]:
    """-1 (none), any int64 that is not negative, and times close together."""
    edges = st.sampled_from([-1, 0, INT64_MAX, 2**31, 2**32])
    near = st.integers(1_700_000_000_000 - 70, 1_700_000_000_000 + 70)
    return st.one_of(near, edges, st.integers(0, INT64_MAX))


def headers() -> st.SearchStrategy[Headers]:
    """Empty and repeated keys, null and empty values."""
    value = st.one_of(st.none(), st.binary(max_size=8))
    key = st.one_of(st.sampled_from(["", "a", "ü"]), st.text(max_size=6))
    return st.lists(st.tuples(key, value), max_size=4).map(tuple)


def record_lists(
    largest: int = SIZE_EDGES[-1], max_size: int = 8
) -> st.SearchStrategy[list[Record]]:
    """Records of one batch or log, at offset 0: the writer numbers them."""
    parts = st.tuples(timestamps(), fields(largest), fields(largest), headers())
    one = parts.map(lambda values: Record(0, *values))
    return st.lists(one, min_size=1, max_size=max_size)


def numbered(records: Sequence[Record], gaps: Sequence[int], base: int) -> list[Record]:
    """The records at `base` and, each, `gap` offsets further than the one before."""
    offsets = accumulate(gaps, initial=base)
    return [one._replace(offset=at) for one, at in zip(records, offsets, strict=False)]


def base_offsets(span: int) -> st.SearchStrategy[int]:
    """First offsets such that `span` more are still int64."""
    edges = st.sampled_from([0, 2**31 - 1, 2**31, INT64_MAX - span])
    return st.one_of(edges, st.integers(0, INT64_MAX - span))


@st.composite
def modern_batches(draw: Callable[..., Any]) -> bytes:
    """A v2 batch: any codec, either timestamp type, gaps inside and offsets lost at its end."""
    records = draw(record_lists(64, max_size=4))
    steps = st.one_of(st.just(1), st.integers(1, INT32_MAX // 8))
    gaps = draw(st.lists(steps, min_size=len(records), max_size=len(records)))
    records = numbered(records, gaps, draw(base_offsets(sum(gaps))))
    codec = draw(st.sampled_from(Codec))
    appended = draw(st.booleans())
    base, last = records[0].offset, records[-1].offset + gaps[-1] - 1
    plain = sparse_batch(records, base, last, attributes=codec | appended << 3)
    return compressed(plain, codec)


@st.composite
def legacy_entries(draw: Callable[..., Any]) -> bytes:
    """An entry of magic 0 or 1, plain or compressed."""
    records = [one._replace(headers=()) for one in draw(record_lists(64, max_size=4))]
    gaps = draw(st.lists(st.integers(1, 5), min_size=len(records), max_size=len(records)))
    records = numbered(records, gaps, draw(base_offsets(sum(gaps))))
    magic = draw(st.sampled_from([0, 1]))
    codec = draw(st.sampled_from(["none", *messages.CODECS]))
    if codec == "none":
        return b"".join(messages.message(one, magic) for one in records)
    append_time = draw(st.none() | timestamps()) if magic else None
    return messages.wrapper(records, magic, codec, append_time)


def logs() -> st.SearchStrategy[bytes]:
    """Entries of all formats back to back; their offsets need not grow, which decoding ignores."""
    entry = st.one_of(modern_batches(), legacy_entries())
    return st.lists(entry, max_size=4).map(b"".join)


def compressed(batch: bytes, codec: Codec) -> bytes:
    """The v2 batch with its records in a stream of that codec; its checksum is left to rot."""
    body = compress(codec, batch[61:])
    return batch[:8] + (49 + len(body)).to_bytes(4, "big") + batch[12:61] + body


def mutations() -> st.SearchStrategy[list[tuple[float, int]]]:
    """Places, as parts of a length, and what to XOR the byte there with."""
    return st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4
    )
