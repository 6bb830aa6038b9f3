"""Fetch of sealed segments: bytes per CPU second of the gateway, beside loops that send the same.

The client throws away what comes, without copying it (MSG_TRUNC), and is a process of its own; what
is counted is the server's CPU time, user and system. The floors answer a range of the same file on
a blocking socket: one reads it and writes it, one calls sendfile. Both know where to begin, and
neither looks at a header. They are the same program before and after any change of ours.
"""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicDescription
from sparklog.record.rows import RecordColumns
from sparklog.storage import open_files
from tests.logs import append_to
from tests.maintenance import run as run_job
from tests.wire.doors import behind
from tests.wire.fetching import Part, fetch_request, partitions_of
from tests.wire.gateways import Client, frame_of
from tests.wire.processes import GatewayProcess, gateway_process

MIB = 1024 * 1024
LOG_BYTES = 256 * MIB
SIZES = {"1 MiB": MIB, "8 MiB": 8 * MIB}
VERSION = 17
Answer = Callable[[socket.socket, int, int, int], None]
_ASKED = struct.Struct(">qq")


def run(settings: Settings) -> list[Figure]:
    """Measure answers of each size, in turns with the floors."""
    log_dir = settings.directory / "fetch"
    topic = filled(log_dir)
    (file,) = sorted(Path(log_dir).glob("*/*-0/*.log"))
    total = (1 if settings.quick else 8) * 1024 * MIB
    figures: list[Figure] = []
    with gateway_process(log_dir) as process:
        for name, size in SIZES.items():
            ways = {
                "gateway": partial(of_gateway, process, topic, size, total),
                "floor: pread, write": partial(of_floor, read_and_write, file, size, total),
                "floor: sendfile": partial(of_floor, send_file, file, size, total),
            }
            found = {way: [0.0] * settings.rounds for way in ways}
            for number in range(settings.rounds):
                for way, measure in ways.items():
                    found[way][number] = measure()
            group = f"fetch of sealed segments, answers of {name}"
            for way, each in found.items():
                figures.append(Figure.of_rounds(group, way, each, "GB/CPU s"))
            pairs = zip(found["gateway"], found["floor: pread, write"], strict=True)
            ratios = [ours / floor for ours, floor in pairs]
            bar = Bar(least=3)
            figures.append(Figure.of_rounds(group, "gateway / pread, write", ratios, "x", bar))
    return figures


def filled(log_dir: Path) -> TopicDescription:
    """Make a topic of one sealed segment, batches of 16 KiB."""
    config = {"segment.bytes": 2 * LOG_BYTES, "retention.ms": -1}
    [topic] = AdminClient(log_dir).create_topics([NewTopic("fetch", 1, config)])
    catalog, count = Catalog(open_files(str(log_dir))), LOG_BYTES // 1024
    values = np.random.default_rng(0).bytes(count * 1000)
    offsets = pa.array(range(0, count * 1000 + 1, 1000), pa.int32())
    column = pa.Array.from_buffers(
        pa.binary(), count, [None, offsets.buffers()[1], pa.py_buffer(values)]
    )
    nulls = pa.nulls(count, pa.binary())
    records = RecordColumns(key=nulls, value=column, timestamp=np.arange(count))
    append_to(catalog, 0, records, topic="fetch")
    run_job(merge_segments, log_dir, seal=True)
    return topic


def of_gateway(process: GatewayProcess, topic: TopicDescription, size: int, total: int) -> float:
    """Fetch until `total` bytes have come; return GB per CPU second of the process."""
    with Client(process.port) as client:
        frames = list(_frames(client, topic, size))
        before, count = cpu_s(process.pid), 0
        while count < total:
            for frame in frames:
                client.send_frame(frame)
                head = struct.unpack(">i", _exactly(client.socket, 4))[0]
                _throw_away(client.socket, head)
                count += head
        return count / 1e9 / (cpu_s(process.pid) - before)


def _frames(client: Client, topic: TopicDescription, size: int) -> Iterator[bytes]:
    """Requests that read the log from its start to its end."""
    offset = end = 0
    while offset <= end:
        asked = fetch_request(
            VERSION, topic, Part(0, offset, size), max_bytes=2**31 - 1, wait_ms=500
        )
        [answer] = partitions_of(client.ask(asked))
        data, end = bytes(answer.records), answer.high_watermark - 1
        yield frame_of(asked)
        offset = behind(data)


def of_floor(answer: Answer, file: Path, size: int, total: int) -> float:
    """The same of a loop in a process of its own."""
    end = file.stat().st_size
    sizes = [(start, min(size, end - start)) for start in range(0, end, size)]
    with _floor(answer, file) as (pid, own):
        before, count = cpu_s(pid), 0
        while count < total:
            for start, length in sizes:
                own.sendall(_ASKED.pack(start, length))
                _throw_away(own, length)
                count += length
        return count / 1e9 / (cpu_s(pid) - before)


@contextmanager
def _floor(answer: Answer, file: Path) -> Iterator[tuple[int, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = get_context("fork").Process(target=_serve, args=(server, answer, file))
        process.start()
        with socket.create_connection(server.getsockname()) as own:
            yield process.pid or 0, own
        process.join()


def _serve(server: socket.socket, answer: Answer, file: Path) -> None:
    own, _ = server.accept()
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    descriptor = os.open(file, os.O_RDONLY)
    while asked := own.recv(_ASKED.size):
        start, length = _ASKED.unpack(asked)
        answer(own, descriptor, start, length)


def read_and_write(own: socket.socket, file: int, start: int, length: int) -> None:
    """Answer with a copy."""
    own.sendall(os.pread(file, length, start))


def send_file(own: socket.socket, file: int, start: int, length: int) -> None:
    """Answer without one."""
    while length:
        count = os.sendfile(own.fileno(), file, start, length)
        start, length = start + count, length - count


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, of all its threads."""
    found = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in found) / 1e9


def _exactly(own: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += own.recv(size - len(data))
    return data


_NOTHING = bytearray(MIB)


def _throw_away(own: socket.socket, size: int) -> None:
    while size:
        size -= own.recv_into(_NOTHING, min(size, MIB), socket.MSG_TRUNC)
