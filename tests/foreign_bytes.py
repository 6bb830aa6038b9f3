"""Bytes of strangers: a broker's files, sound and damaged, and any others."""

from contextlib import suppress

from hypothesis import strategies as st

from sparklog.errors import SparklogError
from tests.compat.cases import BROKER

SAMPLES = sorted(path.read_bytes() for path in BROKER.glob("*-0/*.log"))


def damaged(sample: bytes, edits: list[tuple[int, int]]) -> bytes:
    """Put bytes at places of a sample; places behind its end are counted from its beginning."""
    data = bytearray(sample)
    for at, byte in edits:
        data[at % len(data)] = byte
    return bytes(data)


DAMAGED = st.builds(
    damaged,
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4),
)
BYTES = st.one_of(st.binary(max_size=300), DAMAGED)


def only_ours(call: object) -> None:
    """Calls, and lets nothing but the library's errors pass unseen."""
    assert callable(call)
    with suppress(SparklogError):
        call()
