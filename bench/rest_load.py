"""Servers to measure, and clients that load them: plain sockets, so that clients cost little."""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def service(log_dir: Path) -> Iterator[tuple[str, int]]:
    """Start the service as users run it, without its log of requests."""
    command = [sys.executable, "-m", "sparklog", "rest"]
    settings = {"LOG_DIR": str(log_dir), "PORT": "0", "ACCESS_LOG": "false"}
    with server(command, **{f"SPARKLOG_{name}": value for name, value in settings.items()}) as one:
        yield one


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


class Connection:
    """One connection, and the time of each answer over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, address: str) -> "Connection":
        """Connect."""
        host, _, port = address.rpartition("//")[2].partition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, request: bytes) -> bytes:
        """Send a request and return the body of its answer, which must be 200."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if b" 200 " not in head[:20] or length is None:
            raise RuntimeError(f"answered {head!r}")
        return await self._reader.readexactly(int(length[1]))

    def close(self) -> None:
        """Close it."""
        self._writer.close()


def load(address: str, request: Request, clients: int, each: int) -> tuple[float, list[float]]:
    """Return requests a second, and the time of each, of some clients at once.

    Each sends a request after the answer to the one before.
    """
    seconds: list[float] = []

    async def ask_all(client: int) -> None:
        connection = await Connection.to(address)
        for number in range(client * each, (client + 1) * each):
            started = time.perf_counter()
            await connection.ask(request(number))
            seconds.append(time.perf_counter() - started)
        connection.close()

    async def run() -> float:
        started = time.perf_counter()
        await asyncio.gather(*map(ask_all, range(clients)))
        return clients * each / (time.perf_counter() - started)

    return asyncio.run(run()), sorted(seconds)


def paced(address: str, request: Request, per_second: int, count: int) -> list[float]:
    """Return the times of `count` requests that are due at a fixed rate, over 16 connections.

    A time counts from when the request was due: one that waits for a slow answer is slow, too.
    """
    clients = 16
    seconds: list[float] = []

    async def ask_some(client: int, started: float) -> None:
        connection = await Connection.to(address)
        for number in range(client, count, clients):
            due = started + number / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await connection.ask(request(number))
            seconds.append(time.perf_counter() - due)
        connection.close()

    async def run() -> None:
        started = time.perf_counter() + 0.1
        await asyncio.gather(*(ask_some(client, started) for client in range(clients)))

    asyncio.run(run())
    return sorted(seconds)


def get(path: str) -> Request:
    """A GET, the same every time."""
    return each_get(lambda _: path)


def each_get(path: Callable[[int], str]) -> Request:
    """A GET whose path depends on the number of the request."""
    return lambda number: f"GET {path(number)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def as_post(path: str, content: object) -> Request:
    """A POST of JSON, the same every time."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    text = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    return lambda _: text


def post(path: str, count: int) -> Request:
    """A produce of `count` records of 100 bytes."""
    value = base64.b64encode(b"x" * 100).decode()
    return as_post(path, {"records": [{"value": value}] * count})


def resident_mb(process: int | str) -> float:
    """Return the resident memory of a process."""
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024
