"""The REST service: one worker, clients on the same machine, ratios within one run.

An empty FastAPI route, and starlette's FileResponse, are served by a process of their own; the
service runs as users run it (`python -m api`), with its log of requests switched off.
"""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.manifest.catalog import Catalog
from sparklog.record.rows import RecordColumns
from sparklog.storage import open_files

ROOT = Path(__file__).parents[1]
_ADDRESS = re.compile(r"running on (http://127\.0\.0\.1:\d+)")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)

Request = Callable[[int], bytes]


@contextmanager
def server(command: Sequence[str], **environment: str) -> Iterator[tuple[str, int]]:
    """Start a server, yield (address, process id), and end it."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=out, stderr=out
        )
        try:
            found = None
            while found is None and process.poll() is None:
                time.sleep(0.02)
                out.seek(0)
                found = _ADDRESS.search(out.read())
            if found is None:
                raise RuntimeError(f"{command} did not start")
            yield found[1], process.pid
        finally:
            process.terminate()
            process.wait()


def floor_app(path: str) -> str:
    """Return the program of a server with an empty route and one that sends a file."""
    return f"""
import uvicorn
from fastapi import FastAPI
from starlette.responses import FileResponse
app = FastAPI()
@app.get("/empty")
async def empty():
    return {{}}
@app.get("/file")
async def file():
    return FileResponse({path!r})
uvicorn.run(app, port=0, access_log=False)
"""


async def _exchange(address: str, requests: Iterator[bytes], seconds: list[float]) -> None:
    """Send requests over one connection, each after the answer to the one before."""
    host, _, port = address.rpartition("//")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for request in requests:
        started = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if b" 200 " not in head[:20] or length is None:
            raise RuntimeError(f"answered {head!r}")
        await reader.readexactly(int(length[1]))
        seconds.append(time.perf_counter() - started)
    writer.close()


def load(address: str, request: Request, clients: int, each: int) -> tuple[float, list[float]]:
    """Return requests a second, and the time of each, of some clients at once."""
    seconds: list[float] = []

    async def run() -> float:
        started = time.perf_counter()
        work: list[Awaitable[None]] = [
            _exchange(address, (request(client * each + n) for n in range(each)), seconds)
            for client in range(clients)
        ]
        await asyncio.gather(*work)
        return clients * each / (time.perf_counter() - started)

    return asyncio.run(run()), sorted(seconds)


def get(path: str) -> Request:
    """A GET, the same every time."""
    text = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    return lambda _: text


def post(path: str, count: int) -> Request:
    """A produce of `count` records of 100 bytes."""
    value = base64.b64encode(b"x" * 100).decode()
    body = json.dumps({"records": [{"value": value}] * count}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    text = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    return lambda _: text


def fill(log_dir: Path, records: int) -> Path:
    """Make the topic `bench` with a sealed segment in partition 0, and return its file."""
    import numpy as np
    import pyarrow as pa

    config = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}
    AdminClient(log_dir).create_topics([NewTopic("bench", 4, config)])
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
    commit_write(catalog.store(plan.topic), plan, segments)
    (file,) = log_dir.glob("*/bench-0/*.log")
    return file


def resident_mb(process: int) -> float:
    """Return the resident memory of a process."""
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def run(settings: Settings) -> list[Figure]:
    """Measure against the floors of the same run."""
    log_dir = settings.directory / "rest"
    records = 100_000 if settings.quick else 1_000_000
    file = fill(log_dir, records)
    each = 50 if settings.quick else 500
    python = sys.executable
    quiet = {"SPARKLOG_LOG_DIR": str(log_dir), "SPARKLOG_PORT": "0", "SPARKLOG_ACCESS_LOG": "false"}
    started = time.perf_counter()
    with (
        server([python, "-m", "api"], **quiet) as (address, process),
        server([python, "-c", floor_app(str(file))]) as (floor, _),
    ):
        cold = time.perf_counter() - started
        figures = [Figure("REST", "cold start, both servers", cold, "s", Bar(most=4.0))]
        figures += lookups(address, floor, each, records)
        figures += fetches(address, floor, file, records)
        figures += produces(address, each)
        figures.append(Figure("REST", "resident memory", resident_mb(process), "MB"))
    return figures


def lookups(address: str, floor: str, each: int, records: int) -> list[Figure]:
    """Requests a second beside an empty route; the tail under a fixed load."""
    path = "/topics/bench/partitions/0/offsets"
    empty, _ = load(floor, get("/empty"), 16, each)
    ends, _ = load(address, get(path), 16, each)
    place, _ = load(address, get(f"{path}/{records // 2}"), 16, each)
    time_, _ = load(address, get(f"{path}?timestamp={records // 3}"), 16, each)
    _, tail = load(address, get(f"{path}?timestamp={records // 3}"), 1, 10 * each)
    p99 = tail[int(len(tail) * 0.99)] * 1000
    return [
        Figure("REST", "empty FastAPI route", empty, "req/s"),
        Figure("REST", "log end offsets / empty route", ends / empty, "", Bar(least=0.6)),
        Figure("REST", "offset by time / empty route", time_ / empty, "", Bar(least=0.6)),
        Figure("REST", "place of an offset / empty route", place / empty, "", Bar(least=0.6)),
        Figure("REST", "p99 of an offset by time", p99, "ms", Bar(most=10)),
    ]


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


def produces(address: str, each: int) -> list[Figure]:
    """Records a second in large requests, and requests a second in small ones."""
    load(address, post("/topics/bench", 1000), 8, 3)  # the first opens the topic
    large, _ = load(address, post("/topics/bench", 1000), 8, max(each // 10, 5))
    small, _ = load(address, post("/topics/bench", 1), 64, max(each // 10, 5))
    return [
        Figure(
            "REST", "produce, 1,000 records each", large * 1000, "records/s", Bar(least=150_000)
        ),
        Figure("REST", "produce, 64 clients, 1 record each", small, "req/s", Bar(least=1_500)),
    ]
