"""Groups: joins and consumers beside a Kafka 4.1.1 broker in turns; commits, lag, failover.

Commits have no peer here: a broker acknowledges them before they are on disk, the gateway after.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.figures import Bar, Figure
from bench.gateway import produced
from bench.group_load import (
    await_coordinator,
    commit_frames,
    committed,
    committed_at,
    consumed,
    cpu_seconds,
    heartbeats,
    members,
)
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.offsets_topic import claim, load, newest, offsets_topic
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import CommittedOffset, Now
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.fleet import LocalFleet
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import MetadataLog
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests.kafka.broker import running_broker
from tests.logs import append_to, columns
from tests.wire.processes import GatewayProcess, gateway_process
from tests.wire.storming import Group, joined_at_once

TOPIC = "bench"
PARTITIONS = 4
MEMBERS = 50
QUICK = ("--group-initial-rebalance-delay-ms", "0")
PACE = 2_100
"""Commits that are due each second: 2,000, and some more so that none of them is missing."""
REST_MAX_S = 120
TAKEN = 512
"""Records of groups in one append: their partition takes 1 MiB."""


def run(settings: Settings) -> list[Figure]:
    """Measure all of it."""
    directory = settings.directory
    with (
        running_broker(directory / "broker") as broker,
        gateway_process(directory / "log", *QUICK) as process,
    ):
        ports = {"broker": int(broker.bootstrap.rsplit(":", 1)[1]), "gateway": process.port}
        figures = [*_joins(ports, settings)]
        broker.create_topic(TOPIC, PARTITIONS)
        AdminClient(directory / "log").create_topics([NewTopic(TOPIC, PARTITIONS)])
        places = {"broker": broker.bootstrap, "gateway": process.address}
        figures += _consumers(places, directory / "log", settings)
    with gateway_process(directory / "loaded", *QUICK) as process:
        AdminClient(directory / "loaded").create_topics([NewTopic("t", 10)])
        figures += _commits(process, settings)
        figures += _heartbeats(process, directory / "loaded", settings)
    return [*figures, *_lags(settings), *_failover(settings)]


def _in_turns(
    group: str,
    unit: str,
    rounds: int,
    measures: Mapping[str, Callable[[int], float]],
    bars: tuple[Bar | None, Bar],
) -> Iterator[Figure]:
    """Yield the figures of broker and gateway, and their ratio; bars of the last two.

    Each begins every second round, so that the order favours neither.
    """
    found: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(measures)[:: -1 if number % 2 else 1]:
            found[name].append(measures[name](number))
    for name, each in found.items():
        yield Figure.of_rounds(group, name, each, unit, bars[0] if name == "gateway" else None)
    ratios = [a / b for a, b in zip(found["gateway"], found["broker"], strict=True)]
    yield Figure.of_rounds(group, "gateway / broker", ratios, "x", bars[1])


def _joins(ports: Mapping[str, int], settings: Settings) -> Iterator[Figure]:
    def joins(port: int) -> Callable[[int], float]:
        return lambda number: joined_at_once(Group(f"joins-{number}", MEMBERS), port, MEMBERS, 60)

    for port in ports.values():  # warm up
        await_coordinator(port)
        joined_at_once(Group("first", MEMBERS), port, MEMBERS, 120)
    measures = {name: joins(port) for name, port in ports.items()}
    name, bars = f"{MEMBERS} raw members join at once, all assigned", (Bar(most=1), Bar(most=1.5))
    yield from _in_turns(name, "s", max(settings.rounds, 5), measures, bars)


def _consumers(places: Mapping[str, str], log_dir: Path, settings: Settings) -> Iterator[Figure]:
    """Yield figures of ConsumerPerformance: of what was just produced, and of sealed segments."""
    for place in places.values():
        produced(place, settings.records, ())

    def reads(place: str) -> Callable[[int], float]:
        return lambda _: consumed(place, TOPIC, settings.records)

    measures = {name: reads(place) for name, place in places.items()}
    for place in places.values():  # warm up
        consumed(place, TOPIC, settings.records // 10)
    name, rounds = "kafka-consumer-perf-test", 2 * settings.rounds + 1
    bars = None, Bar(least=0.8)
    yield from _in_turns(f"{name}, fresh tail", "records/s", rounds, measures, bars)
    context = JobContext(Catalog(open_files(str(log_dir))), LocalFleet())
    for step in merge_segments(context, [TOPIC], {"seal": True}):
        outcome = step.execute()
        if outcome.problems or outcome.counts["conflicts"]:
            raise RuntimeError(f"not all segments are sealed: {outcome}")
    bars = None, Bar(least=1.0)
    yield from _in_turns(f"{name}, sealed segments", "records/s", rounds, measures, bars)


def _commits(process: GatewayProcess, settings: Settings) -> Iterator[Figure]:
    frames = commit_frames(process.port, 200, 10)
    committed(process.port, frames, 2)  # claims the partitions
    found = [committed(process.port, frames, 5) for _ in range(settings.rounds)]
    group = "offset commits, 200 groups x 10 partitions, synced"
    at_once = f"{group}, each group's next after its answer"
    paced = [committed_at(process.port, frames, 20, PACE) for _ in range(settings.rounds)]
    for name, rounds in ((at_once, found), (f"{group}, {PACE:,} due each second", paced)):
        rates, late = [one for one, _ in rounds], [one for _, one in rounds]
        yield Figure.of_rounds(name, "commits", rates, "commits/s", Bar(least=2000))
        yield Figure.of_rounds(name, "p99", late, "ms", Bar(most=50))


def _heartbeats(process: GatewayProcess, log_dir: Path, settings: Settings) -> Iterator[Figure]:
    found = members(process.port, 1000)
    log = Catalog(open_files(str(log_dir))).log
    _await_rest(log)
    seconds, shares, entries = 12.0, list[float](), list[float]()
    for _ in range(settings.rounds):
        version, used = log.image().version, cpu_seconds(process.pid)
        heartbeats(process.port, found, seconds, every_s=3)
        shares.append((cpu_seconds(process.pid) - used) / seconds * 100)
        entries.append(log.image().version - version)
    group = "1,000 members, a heartbeat every 3 s"
    yield Figure.of_rounds(group, "of a core", shares, "%", Bar(most=10))
    yield Figure.of_rounds(group, "entries", entries, "", Bar(most=0))


def _await_rest(log: MetadataLog) -> None:
    """Return when a gateway has merged what was committed before: there was no entry for 5 s."""
    version, end_s = -1, time.monotonic() + REST_MAX_S
    while version != log.image().version and time.monotonic() < end_s:
        version = log.image().version
        time.sleep(5)


def _lags(settings: Settings) -> Iterator[Figure]:
    """Yield the lag of 1,000 groups x 100 partitions, which one process asks again and again."""
    catalog = Catalog(open_files(str(settings.directory / "lags")), flush=False)
    admin, now_ms = AdminClient(settings.directory / "lags"), catalog.clock.now_ms()
    admin.create_topics([NewTopic("t", 100, config={"retention.ms": "-1"})])
    places = [number for number in range(100) for _ in range(100)]
    times = [now_ms - 1000] * len(places)
    append_to(catalog, places, columns(places, timestamps=times))
    append_groups(catalog, 1000, 100)
    group = "lag of 1,000 groups x 100 partitions"
    yield Figure(group, "the first time, groups read", _seconds(admin), "s")
    each = [_seconds(admin) for _ in range(2 * settings.rounds)]
    yield Figure.of_rounds(group, "in records", each, "s", Bar(most=0.3))
    used = [_seconds(admin, clock=time.process_time) for _ in range(2 * settings.rounds)]
    yield Figure.of_rounds(group, "in records, time of the processor", used, "s")
    each = [_seconds(admin, in_time=True) for _ in range(settings.rounds)]
    yield Figure.of_rounds(group, "in seconds, with states", each, "s", Bar(most=10))


def _seconds(
    admin: AdminClient, *, in_time: bool = False, clock: Callable[[], float] = time.perf_counter
) -> float:
    begun = clock()
    admin.consumer_group_lags(in_time=in_time)
    return clock() - begun


def append_groups(catalog: Catalog, groups: int, offsets: int, partitions: int = 50) -> None:
    """Append offsets of groups to __consumer_offsets, which is made."""
    topic, now_ms = offsets_topic(catalog, catalog.clock, partitions), catalog.clock.now_ms()
    records: dict[int, list[Record]] = defaultdict(list)
    for number in range(groups):
        name = f"group-{number}"
        for one in range(offsets):
            offset = CommittedOffset(number % 100, committed_ms=now_ms - 60_000)
            record = offset_record(name, TopicPartition("t", one), offset)
            records[partition_of(name, partitions)].append(record)
    writer = AppendWriter(catalog, flush=False)
    for number, found in records.items():
        for some in _parts(found):
            append = Append(topic.topic_id, number, batch_of(some, now_ms))
            slot = Slot(append, 13)
            writer.write([slot])
            if not isinstance(slot.outcome, Appended):
                raise RuntimeError(f"not appended: {slot.outcome}")


def _parts(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    for at in range(0, len(records), TAKEN):
        yield records[at : at + TAKEN]


def _failover(settings: Settings) -> Iterator[Figure]:
    """Yield how long a claim and the replay take, as the next coordinator does it."""
    directory = settings.directory / "failover"
    AdminClient(directory).create_log_dir()
    append_groups(Catalog(open_files(str(directory))), 10_000, 10, partitions=1)
    seconds = []
    for _ in range(settings.rounds):
        catalog = Catalog(open_files(str(directory)))
        topic, shard = offsets_topic(catalog, catalog.clock, 1), Shard(GroupLimits(), str)
        begun = time.perf_counter()
        claim(catalog, topic, 0)
        load(newest(catalog, topic), 0, shard.replay)
        shard.loaded(Now(0, 0))
        seconds.append(time.perf_counter() - begun)
    group = "failover: claim and replay of 10,000 groups x 10 offsets"
    yield Figure(group, "seconds", median(seconds), "s", Bar(most=3), tuple(seconds))
