"""Consumers that wait at a gateway: what idle ones cost, and how soon they see a commit of others.

An idle consumer asks again as soon as its fetch is answered, after 30 s without a record. Commits
are those of this process, which writes to the log dir without the gateway.
"""

import resource
import selectors
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from threading import Event, Thread
from typing import Final

from bench.figures import Bar, Figure
from bench.group_load import cpu_seconds
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicDescription
from sparklog.storage import open_files
from tests.logs import append_to, columns
from tests.wire.fetching import NEWEST, Part, fetch_request, partitions_of
from tests.wire.gateways import Client, frame_of
from tests.wire.processes import GatewayProcess, gateway_process
from tests.wire.test_metadata import topics_asked

TOPICS: Final = 1_000
COMMITS: Final = 100
WARMING: Final = 300
"""Requests before: meanwhile the gateway loads its kernels."""
ASKED: Final = 100
POLLS: Final = 10_000
WAIT_MS: Final = 30_000
COMMITS_A_SECOND: Final = 100
OWN_FILES: Final = 1_000
"""Descriptors that are no connections."""
READ_BYTES: Final = 100_000
METADATA: Final = 12


def run(settings: Settings) -> list[Figure]:
    """Measure one gateway; every figure is of one run."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    log_dir = settings.directory / "waiting"
    AdminClient(log_dir).create_topics([NewTopic(f"topic-{n}", 4) for n in range(TOPICS)])
    catalog = Catalog(open_files(str(log_dir)))
    seconds = 10 if settings.quick else 60
    with gateway_process(log_dir) as process:
        figures = [_metadata(process), *_seen(process, catalog)]
        # The gateway takes two descriptors for a connection.
        count = min(POLLS, (most - OWN_FILES) // 2)
        with _idle(process, catalog.topic("topic-0"), count):
            time.sleep(WAIT_MS / 1000)  # until every consumer has asked twice
            figures += _cost(process, catalog, count, seconds)
    return figures


def _metadata(process: GatewayProcess) -> Figure:
    """Return how long Metadata of all topics takes, once the gateway is warm."""
    took = []
    with Client(process.port) as client:
        frame = frame_of(topics_asked(METADATA, *(f"topic-{n}" for n in range(TOPICS))))
        for _ in range(WARMING + ASKED):
            began = time.perf_counter()
            client.send_frame(frame)
            client.receive_frame()
            took.append(1000 * (time.perf_counter() - began))
    asked = median(took[WARMING:])
    return Figure("metadata", f"of {TOPICS:,} topics, median", asked, "ms", Bar(most=5))


def _seen(process: GatewayProcess, catalog: Catalog) -> list[Figure]:
    """Return the times from a commit to the answer of a fetch that waits for it."""
    topic, took = catalog.topic("topic-0"), []
    with Client(process.port) as client:
        for number in range(COMMITS):
            part = Part(0, number, READ_BYTES)
            asked = fetch_request(NEWEST, topic, part, max_bytes=READ_BYTES, wait_ms=WAIT_MS)
            client.send(asked)
            time.sleep(0.05)  # until the fetch waits
            append_to(catalog, 0, columns([number]), topic=topic.name)
            committed = time.perf_counter()
            [found] = partitions_of(client.receive(asked.__api_key__, asked.__version__))
            took.append(1000 * (time.perf_counter() - committed))
            if not found.records:
                raise RuntimeError(f"commit {number}: an answer without records")
    group = "another process's commit, seen by a waiting fetch"
    return [
        Figure(group, "median", median(took), "ms", Bar(most=20)),
        Figure(group, f"worst of {COMMITS}", max(took), "ms", Bar(most=100)),
    ]


@contextmanager
def _idle(process: GatewayProcess, topic: TopicDescription, count: int) -> Iterator[None]:
    """Keep so many consumers waiting at the end of a partition that gets no records."""
    asked = fetch_request(NEWEST, topic, Part(1, 0, READ_BYTES), wait_ms=WAIT_MS)
    body, ended = frame_of(asked), Event()
    frame = struct.pack(">i", len(body)) + body
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(count):
            client = stack.enter_context(Client(process.port))
            selector.register(client.socket, selectors.EVENT_READ, client.socket)
            client.socket.sendall(frame)

        def ask_again() -> None:
            while not ended.is_set():
                for key, _ in selector.select(1):
                    key.data.recv(READ_BYTES)
                    key.data.sendall(frame)

        thread = Thread(target=ask_again)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _cost(process: GatewayProcess, catalog: Catalog, count: int, seconds: int) -> Iterator[Figure]:
    """Yield the gateway's share of a core, alone and beside commits to other topics."""
    group = f"{count:,} idle consumers, fetch.max.wait.ms={WAIT_MS}"
    yield Figure(group, "CPU", _percent(process, seconds), "% of a core", Bar(most=5))
    ended = Event()

    def commit() -> None:
        while not ended.wait(1 / COMMITS_A_SECOND):
            append_to(catalog, 0, columns([1]), topic="topic-1")

    thread = Thread(target=commit)
    thread.start()
    before = catalog.topic_image(catalog.topic("topic-1")).partition(0).log_end_offset
    beside = _percent(process, seconds)
    ended.set()
    thread.join()
    after = catalog.topic_image(catalog.topic("topic-1")).partition(0).log_end_offset
    yield Figure(group, "commits of others", (after - before) / seconds, "/s")
    yield Figure(group, "CPU beside them", beside, "% of a core")


def _percent(process: GatewayProcess, seconds: int) -> float:
    before = cpu_seconds(process.pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(process.pid) - before) / seconds
