"""Loads on groups: consumers of Kafka's, raw members, commits and heartbeats over plain sockets."""

import asyncio
import os
import struct
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from statistics import quantiles

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from sparklog.wire.protocol.versions import ApiKey
from tests.kafka.jars import KAFKA, class_path, java
from tests.waiting import until
from tests.wire.gateways import Client, frame_of
from tests.wire.grouping import GroupMember
from tests.wire.processes import children
from tests.wire.requests import body

MINUTE = i32Timedelta.parse(timedelta(minutes=1))
CONNECTIONS = 50
"""So many connections carry the heartbeats."""


def await_coordinator(port: int) -> None:
    """Return when a group has a coordinator: a broker makes its topic when it is asked first."""
    asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("first",), key_type=0)
    with Client(port) as client:
        until(lambda: client.ask(asked).coordinators[0].error_code is ErrorCode.none)


def consumed(bootstrap: str, topic: str, count: int) -> float:
    """Run ConsumerPerformance in a new group; return records/s, its rebalance not counted."""
    command = [java(), "-Xmx512M", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
    command += ["-cp", class_path(KAFKA), "org.apache.kafka.tools.ConsumerPerformance"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--messages", str(count)]
    told = subprocess.run(
        [*command, "--timeout", "60000"], capture_output=True, text=True, check=True, timeout=600
    )
    *_, line = told.stdout.splitlines()
    figures = line.split(",")
    if int(figures[4]) < count:
        raise RuntimeError(f"{bootstrap}: {line}\n{told.stderr}")
    return float(figures[9])


def commit_frames(port: int, groups: int, partitions: int) -> list[bytes]:
    """Requests that commit offsets of partitions, one for each group; nobody is a member."""
    offsets = {("t", partition): partition for partition in range(partitions)}
    with Client(port) as client:
        found = [GroupMember(client, f"commits-{number}") for number in range(groups)]
    return [_framed(frame_of(one.commit_request(offsets))) for one in found]


def _framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


async def _asks(
    port: int, frames: Sequence[bytes], end: float, every_s: float = 0
) -> tuple[list[float], bytes]:
    """Ask over a connection until a time, one after another; return seconds, and the last answer.

    With `every_s` all are asked once in so many seconds.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seconds, answer = [], b""
    while (begun := time.perf_counter()) < end:
        for frame in frames:
            asked = time.perf_counter()
            writer.write(frame)
            answer = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
            seconds.append(time.perf_counter() - asked)
        await asyncio.sleep(max(0.0, begun + every_s - time.perf_counter()) if every_s else 0)
    writer.close()
    return seconds, answer


def committed(port: int, frames: Sequence[bytes], seconds: float) -> tuple[float, float]:
    """Have groups commit, each over a connection of its own; return commits/s and p99 in ms."""

    async def run() -> list[float]:
        end = time.perf_counter() + seconds
        found = await asyncio.gather(*(_asks(port, [frame], end) for frame in frames))
        return [one for each, _ in found for one in each]

    begun = time.perf_counter()
    found = asyncio.run(run())
    elapsed = time.perf_counter() - begun
    return len(found) / elapsed, quantiles(found, n=100)[98] * 1000


def committed_at(
    port: int, frames: Sequence[bytes], seconds: float, rate: float
) -> tuple[float, float]:
    """Have groups commit `rate` times a second in all, spread evenly; return commits/s, p99 in ms.

    A commit is due at its time whether or not the one before is answered, and its latency counts
    from then (no coordinated omission).
    """

    every_s = len(frames) / rate
    rounds = max(1, round(seconds / every_s))

    async def run() -> tuple[list[float], float]:
        began = time.perf_counter() + 0.5

        async def one(number: int, frame: bytes) -> list[float]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            first = began + number / rate
            late = []
            for turn in range(rounds):
                due = first + turn * every_s
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                writer.write(frame)
                await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
                late.append(time.perf_counter() - due)
            writer.close()
            return late

        each = await asyncio.gather(*(one(at, frame) for at, frame in enumerate(frames)))
        return [late for found in each for late in found], time.perf_counter() - began

    found, took = asyncio.run(run())
    return len(found) / took, quantiles(found, n=100)[98] * 1000


def members(port: int, count: int) -> list[GroupMember]:
    """Members of a group each, with sessions of a minute."""

    def joined(first: int) -> list[GroupMember]:
        with Client(port) as client:
            found = [
                GroupMember(client, f"beats-{number}")
                for number in range(first, count, CONNECTIONS)
            ]
            for member in found:
                member.session = MINUTE
                member.join(b"subscription")
                member.sync({member.member_id: b"everything"})
            return found

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return [one for found in pool.map(joined, range(CONNECTIONS)) for one in found]


def heartbeats(port: int, found: Sequence[GroupMember], seconds: float, every_s: float) -> int:
    """Have members heartbeat; return how many heartbeats were answered without an error."""
    frames = [_framed(frame_of(body(ApiKey.HEARTBEAT, 4, **one.identity()))) for one in found]

    async def run() -> int:
        end = time.perf_counter() + seconds
        parts = [frames[at::CONNECTIONS] for at in range(CONNECTIONS)]
        each = await asyncio.gather(*(_asks(port, one, end, every_s) for one in parts))
        if any(answer[9:11] != b"\0\0" for _, answer in each):
            raise RuntimeError("a heartbeat was refused")
        return sum(len(one) for one, _ in each)

    return asyncio.run(run())


def cpu_seconds(pid: int) -> float:
    """The seconds of a processor that a gateway and its housekeeper have used."""
    return sum(_cpu_seconds(one) for one in (pid, *children(pid)))


def _cpu_seconds(pid: int) -> float:
    """The same of one process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
