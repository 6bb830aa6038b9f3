"""The loops over bytes, each alone on one core: no Spark, no files.

Rows are as Spark hands them over: 100,000 per Arrow batch, keys of 6 and values of 100 bytes. A
figure includes everything around the kernel, such as Arrow arrays, headers and checksums. Seconds
are of CPU time, so other programs on the machine matter little.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.model import Codec
from sparklog.produce.partitioner import resolve_partitioner
from sparklog.record import encode as encoding
from sparklog.record.checksum import verify_checksums
from sparklog.record.decode import decode
from sparklog.record.encode import BatchSettings, EncodedStream, RecordColumns, encode
from sparklog.record.kernels.murmur2 import murmur2_rows
from sparklog.record.rows import HEADERS_TYPE, binary_column
from sparklog.record.scan import scan_batches

GROUP = "kernels: one core, 100-byte values"
ROWS = 100_000
STREAMS = 4
WALKED_BYTES = 1 << 28
ROUND_SECONDS = 0.2
TEXT = '{"carrier":"%s","flight":%4d,"origin":"JFK","dest":"LAX","dep_delay":%3d,"time_hour":"%s"}'

Streams = NDArray[np.int32]


class Case(NamedTuple):
    """A call to measure, the amount of its work, and the bar."""

    name: str
    call: Callable[[], object]
    amount: float
    unit: str
    bar: Bar | None = None


def run(settings: Settings) -> list[Figure]:
    """Encode, decode, header walk, checksums and murmur2; with headers and each codec as well."""
    rounds = 1 if settings.quick else settings.rounds
    return [
        Figure.of_rounds(GROUP, case.name, measured(case, rounds), case.unit, case.bar)
        for case in cases()
    ]


def measure(rounds: int = 3) -> dict[str, float]:
    """The median of each case, in its unit per second: records, or bytes."""
    return {case.name: median(measured(case, rounds)) for case in cases()}


def measured(case: Case, rounds: int) -> list[float]:
    """Amount per second in each round, after one call to warm up."""
    case.call()
    return [_round(case) for _ in range(rounds)]


def cases() -> Iterator[Case]:
    """Everything that is measured."""
    plain, streams = rows(), partitions()
    yield from _encoding("", plain, streams, BatchSettings())
    yield from _without_checksums(plain, streams)
    yield from _encoding(" with 2 headers", rows(headers=True), streams, BatchSettings())
    for codec in tuple(Codec)[1:]:
        yield from _encoding(f" {codec.name.lower()}", plain, streams, BatchSettings(codec=codec))
    yield from _bytes_only(plain)
    yield from _keys(plain)


def rows(*, headers: bool = False) -> RecordColumns:
    """Rows that compress about as JSON of real events does."""
    random = np.random.default_rng(1)
    flights, delays = random.integers(0, 9999, ROWS), random.integers(-20, 200, ROWS)
    carriers = random.integers(0, 16, ROWS)
    values = [
        (TEXT % (f"C{carrier:x}", flight, delay, f"2013-07-{flight % 31:02}"))[:100].ljust(100)
        for carrier, flight, delay in zip(carriers, flights, delays, strict=True)
    ]
    pairs = [("trace", b"0123456789abcdef"), ("source", None)]
    return RecordColumns(
        key=pa.array([f"{key:06}".encode() for key in random.integers(0, 10**6, ROWS)]),
        value=pa.array(values, pa.string()).cast(pa.binary()),
        timestamp=1_700_000_000_000 + np.arange(ROWS) // 100,
        headers=pa.array([pairs] * ROWS, HEADERS_TYPE) if headers else None,
    )


def partitions() -> Streams:
    """Every row's stream, in no order."""
    return np.random.default_rng(2).integers(0, STREAMS, ROWS, np.int32)


def _encoding(
    what: str, columns: RecordColumns, streams: Streams, settings: BatchSettings
) -> Iterator[Case]:
    def write() -> list[EncodedStream]:
        return encode(columns, streams, STREAMS, np.zeros(STREAMS, np.int64), settings)

    def read() -> None:
        for one in encoded:
            verify_checksums(one.data, one.batches)
            decode(one.data, one.batches)

    encoded = write()
    bar = None if what else Bar(least=30e6)
    yield Case(f"encode into {STREAMS} partitions{what}", write, ROWS, "records/s", bar)
    yield Case(f"checksums and decode{what}", read, ROWS, "records/s")


def _without_checksums(columns: RecordColumns, streams: Streams) -> Iterator[Case]:
    bases = np.zeros(STREAMS, np.int64)

    def write() -> None:
        with patch.object(encoding, "put_checksums", lambda *_: None):
            encode(columns, streams, STREAMS, bases, BatchSettings())

    def read() -> None:
        for one in encoded:
            decode(one.data, one.batches)

    encoded = encode(columns, streams, STREAMS, bases, BatchSettings())
    yield Case(f"encode into {STREAMS} partitions, no checksums", write, ROWS, "records/s")
    yield Case("decode", read, ROWS, "records/s", Bar(least=60e6))


def _bytes_only(columns: RecordColumns) -> Iterator[Case]:
    [one] = encode(columns, None, 1, np.zeros(1, np.int64), BatchSettings())
    times = WALKED_BYTES // len(one.data)
    data = np.tile(one.data, times)
    batches = scan_batches(data).batches
    size = float(len(data))
    walk, check = (lambda: scan_batches(data)), (lambda: verify_checksums(data, batches))
    yield Case("header walk, 16 KB batches", walk, size, "B/s", Bar(least=20e9))
    yield Case("checksums, 16 KB batches", check, size, "B/s")


def _keys(columns: RecordColumns) -> Iterator[Case]:
    keys = binary_column(columns.key, "key")
    out = np.empty(ROWS, np.int32)
    by_key = resolve_partitioner("default", 16384, 1)
    yield Case(
        "murmur2, 6-byte keys", lambda: murmur2_rows(keys.offsets, keys.data, out), ROWS, "keys/s"
    )
    yield Case("default partitioner", lambda: by_key.assign(columns, STREAMS), ROWS, "records/s")


def _round(case: Case) -> float:
    calls, start = 0, time.process_time()
    while (seconds := time.process_time() - start) < ROUND_SECONDS:
        case.call()
        calls += 1
    return calls * case.amount / seconds


if __name__ == "__main__":
    for name, figure in measure().items():
        print(f"{name}: {figure:,.0f}")
