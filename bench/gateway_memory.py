"""Memory and cold start of a gateway: 50,000 segments in one partition, 1,000 connections.

Each connection asks for metadata, finds an offset by time, reads 100 KB from a place of its own,
and then waits for records at the log's end, as idle consumers do.
"""

import resource
import time
from contextlib import ExitStack
from pathlib import Path

from bench import lookups
from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.admin import AdminClient
from sparklog.model import TopicDescription
from tests.wire.fetching import NEWEST, Part, fetch_request, partitions_of
from tests.wire.gateways import Client
from tests.wire.processes import GatewayProcess, children, gateway_process
from tests.wire.test_list_offsets import answers, list_request
from tests.wire.test_metadata import topics_asked

CONNECTIONS = 1_000
READ_BYTES = 100_000
WAIT_MS = 60_000
METADATA = 12


def run(settings: Settings) -> list[Figure]:
    """Measure one process; every figure is of one run."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    log_dir = settings.directory / "gateway-memory"
    first_ms = lookups.fill(log_dir)
    [topic] = AdminClient(log_dir).describe_topics()
    group = f"the gateway with {lookups.SEGMENTS:,} segments"
    before = time.perf_counter()
    with gateway_process(log_dir) as process, ExitStack() as stack:
        first = stack.enter_context(Client(process.port))
        first.ask(topics_asked(METADATA, topic.name))
        cold_s = time.perf_counter() - before
        alone = resident_mb(process)
        clients = [first]
        clients += [stack.enter_context(Client(process.port)) for _ in range(CONNECTIONS - 1)]
        for number, client in enumerate(clients):
            _use(client, topic, first_ms, number * lookups.SEGMENTS // CONNECTIONS)
        used = resident_mb(process)
    return [
        Figure(group, "cold start to the first answer", cold_s, "s", Bar(most=1.5)),
        Figure(group, "resident after that", alone, "MB"),
        Figure(group, f"resident with {CONNECTIONS:,} connections", used, "MB", Bar(most=250)),
    ]


def _use(client: Client, topic: TopicDescription, first_ms: int, place: int) -> None:
    client.ask(topics_asked(METADATA, topic.name))
    [(error, _, offset)] = answers(
        client.ask(list_request(10, (topic.name, 0, first_ms + place * 1000)))
    )
    asked = fetch_request(NEWEST, topic, Part(0, offset, READ_BYTES), max_bytes=READ_BYTES)
    [found] = partitions_of(client.ask(asked))
    if error or found.error_code or offset != place or not found.records:
        raise RuntimeError(f"{place}: {error}, {offset}, {found.error_code}")
    end = Part(0, found.high_watermark, READ_BYTES)
    client.send(fetch_request(NEWEST, topic, end, max_bytes=READ_BYTES, wait_ms=WAIT_MS))


def resident_mb(process: GatewayProcess) -> float:
    """Megabytes that a gateway holds in memory, and its housekeeper alone."""
    alone = (_kilobytes(one, "smaps_rollup", "Private_") for one in children(process.pid))
    return (_kilobytes(process.pid, "status", "VmRSS") + sum(alone)) / 1000


def _kilobytes(pid: int, file: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(name))
