"""The REST service: one worker, clients on the same machine, ratios within one run.

An empty FastAPI route, and starlette's FileResponse, are served by a process of their own; the
service runs as users run it (`sparklog rest`), with its log of requests switched off.

    rest_load         servers, and clients that load them
    rest_instance     one instance by itself: cold start, visibility, memory
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from bench.figures import Bar, Figure
from bench.rest_instance import cold_start, many_segments, visibility
from bench.rest_load import as_post, each_get, floor_app, get, load, paced, post, server, service
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog
from sparklog.record.rows import RecordColumns
from sparklog.storage import open_files

BATCH = 10
"""Lookups in one POST."""
TOPICS = 64
"""Topics that are produced to at once, each by a client."""


def run(settings: Settings) -> list[Figure]:
    """Measure against the floors of the same run."""
    log_dir = settings.directory / "rest"
    records = 100_000 if settings.quick else 1_000_000
    file = fill(log_dir, records)
    each = 50 if settings.quick else 500
    figures = [cold_start(log_dir)]
    with (
        service(log_dir) as (address, _),
        server([sys.executable, "-c", floor_app(str(file))]) as (floor, _),
    ):
        figures += lookups(address, floor, each, records, settings.rounds)
        figures += [tail(address, records, 20 * each), visibility(address, log_dir)]
        figures += fetches(address, floor, file, records)
        figures += produces(address, max(each // 10, 5), settings.rounds)
    return [*figures, many_segments(settings.directory / "rest-many")]


def fill(log_dir: Path, records: int) -> Path:
    """Make the topic `bench` with a sealed segment in partition 0, and return its file."""
    import numpy as np
    import pyarrow as pa

    config = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}
    topics = ["bench", *(f"bench-{number}" for number in range(TOPICS))]
    AdminClient(log_dir).create_topics([NewTopic(name, 4, config) for name in topics])
    catalog = Catalog(open_files(str(log_dir)))
    plan = plan_write(catalog, "bench", WriteOptions())
    writer = TopicWriter(catalog.files, plan, SystemClock(), seed=0)
    rows = RecordColumns(
        key=pa.nulls(records, pa.binary()),
        value=pa.array([b"x" * 100]).take(pa.array(np.zeros(records, np.int64))),
        timestamp=np.arange(records, dtype=np.int64),
    )
    writer.write(rows, pa.array(np.zeros(records, np.int32)))
    segments = writer.close()
    commit_write(catalog, plan, segments)
    (file,) = log_dir.glob("*/bench-0/*.log")
    return file


def lookups(address: str, floor: str, each: int, records: int, rounds: int) -> list[Figure]:
    """Requests a second beside an empty route; places all over the log, and the same again.

    Rounds are interleaved, and every ratio is to the empty route of its own round.
    """
    path, somewhere = "/topics/bench/partitions/0/offsets", _spread(records)
    batch = {"lookups": [{"partition": 0, "offset": somewhere(n)} for n in range(BATCH)]}
    requests = {
        "log end offsets": (get(path), 1),
        "offset by time, all over the log": (
            each_get(lambda n: f"{path}?timestamp={somewhere(n)}"),
            1,
        ),
        "offset by time, the same again": (get(f"{path}?timestamp={records // 3}"), 1),
        "place of an offset, all over the log": (each_get(lambda n: f"{path}/{somewhere(n)}"), 1),
        "place of an offset, the same again": (get(f"{path}/{records // 2}"), 1),
        f"lookups by POST, {BATCH} each": (as_post("/topics/bench/offsets:lookup", batch), BATCH),
    }
    empty: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in requests}
    for _ in range(rounds):
        empty.append(load(floor, get("/empty"), 16, each)[0])
        for name, (request, lookups_each) in requests.items():
            load(address, request, 16, 5)
            rate, _ = load(address, request, 16, each)
            ratios[name].append(lookups_each * rate / empty[-1])
    bar = Bar(least=0.6)
    return [
        Figure.of_rounds("REST", "empty FastAPI route", empty, "req/s"),
        *(
            Figure.of_rounds("REST", f"{name} / empty route", found, "x", bar)
            for name, found in ratios.items()
        ),
    ]


def tail(address: str, records: int, count: int) -> Figure:
    """The 99th percentile of lookups at 300 a second, half by time and half by offset."""
    path, somewhere = "/topics/bench/partitions/0/offsets", _spread(records)
    request = each_get(lambda n: f"{path}{('/', '?timestamp=')[n % 2]}{somewhere(n)}")
    seconds = paced(address, request, 300, count)
    p99 = seconds[int(len(seconds) * 0.99)] * 1000
    return Figure("REST", "p99 of a lookup at 300 req/s", p99, "ms", Bar(most=10))


def _spread(records: int) -> Callable[[int], int]:
    """Numbers all over the log, each from the number of a request."""
    return lambda number: number * 7_368_787 % records


def fetches(address: str, floor: str, file: Path, records: int) -> list[Figure]:
    """Bytes a second of a sealed segment beside FileResponse; records a second as JSON."""
    path = f"{address}/topics/bench/partitions/0/records?max_bytes=2147483647"
    raw = {"Accept": "application/vnd.sparklog.recordbatch"}
    size = file.stat().st_size
    plain = _seconds(f"{floor}/file", {})
    mapped = _seconds(path, raw)
    count = min(records, 100_000)
    as_json = _seconds(f"{path}&max_records={count}", {})
    ratio = plain / mapped
    return [
        Figure("REST", "FileResponse", size / plain / 2**20, "MB/s"),
        Figure("REST", "raw fetch / FileResponse", ratio, "", Bar(least=0.5)),
        Figure("REST", "JSON fetch", count / as_json, "records/s", Bar(least=200_000)),
    ]


def _seconds(url: str, headers: dict[str, str]) -> float:
    """Return the least time of three to receive a whole body."""
    best = float("inf")
    with httpx2.Client(timeout=60, headers=headers) as client:
        for _ in range(3):
            started = time.perf_counter()
            with client.stream("GET", url) as answer:
                for _ in answer.iter_raw():
                    pass
            best = min(best, time.perf_counter() - started)
    return best


def produces(address: str, each: int, rounds: int) -> list[Figure]:
    """Records a second in large requests; requests a second in small ones, to one topic and many.

    With many topics each client has its own; the ratio is that of one round.
    """
    large, small = post("/topics/bench", 1000), post("/topics/bench", 1)
    own = [post(f"/topics/bench-{number}", 1) for number in range(TOPICS)]

    def to_own(number: int) -> bytes:
        return own[number // each % TOPICS](number)

    load(address, large, 8, 3)  # the first opens the topic
    load(address, to_own, TOPICS, each)
    rates = [
        (
            load(address, large, 8, each)[0] * 1000,
            *(load(address, one, TOPICS, each)[0] for one in (small, to_own)),
        )
        for _ in range(rounds)
    ]
    records, requests, spread = zip(*rates, strict=True)
    ratios = [many / one for one, many in zip(requests, spread, strict=True)]
    small_bar, large_bar = Bar(least=4_000), Bar(least=150_000)
    name = f"produce, {TOPICS} clients, 1 record each"
    return [
        Figure.of_rounds("REST", "produce, 1,000 records each", records, "records/s", large_bar),
        Figure.of_rounds("REST", name, requests, "req/s", small_bar),
        Figure.of_rounds("REST", f"{name}, {TOPICS} topics / one", ratios, "x", Bar(least=0.75)),
    ]
