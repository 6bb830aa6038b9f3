"""The processes of a run over tables: each does some drawn work and is killed after some step.

    writer     produces to every topic, leaves gaps, runs transactions, deletes records
    worker     retention, compaction, merging, indexes
    builder    build_table, now and then from scratch; two at once

A step is an operation on files, counted by the trace that keeps them: any, or one that changes what
other processes see. Units, tiers and checkpoints are small, so that a few records make many steps.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import CommitConflictError
from sparklog.fleet import LocalFleet
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.maintenance import build_table as building
from sparklog.maintenance import table_files
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.metadata.catalog import Catalog
from sparklog.model import Codec
from sparklog.record.rows import HEADERS_TYPE, RecordColumns
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import Operation
from sparklog.table import delta_log
from sparklog.transactions.steps import Transactions
from tests.compat.cases import BROKER
from tests.metadata_logs import keep_house_now
from tests.tables import WITH_TABLE
from tests.tracing import TracingFiles
from tests.transactions import Client, Instance

PLAIN: Final = "plain"
KEYED: Final = "keyed"
SENT: Final = "sent"
"""The topic of transactions."""
PARTITIONS: Final = 2
WRITERS: Final = ("first", "second")
"""Transactional ids: one that another life has left is fenced when its name comes again."""
DAY_MS: Final = 86_400_000
IMPORTED: Final = ("transactional", "compacted", "plain-zstd", "magic1-gzip", "log-append-time")
CONFIGS: Final[dict[str, dict[str, object]]] = {
    PLAIN: {"retention.bytes": 6000, "sparklog.table.retention.ms": DAY_MS},
    KEYED: {"cleanup.policy": "compact", "delete.retention.ms": 0},
    SENT: {},
}
JOBS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "retention": (retention, {}),
    "compact": (compact, {"force": True, "reindex": False}),
    "merge_segments": (merge_segments, {"seal": False}),
    "build_index": (build_index, {"check": False, "rebuild": False}),
}
CHANGES: Final = {"create", "close", "write_new", "put_new", "overwrite", "sync", "delete"}
REBUILDS: Final = 0.08
"""The share of builds that begin anew."""


@dataclass(frozen=True, slots=True)
class Life:
    """One process: what it does, what it draws from, and after how many steps of a kind it dies."""

    log_dir: str
    role: str
    seed: str
    steps: int | None
    counts_changes: bool
    journal: Path

    def note(self, kind: str, text: str) -> None:
        """Append a line in one write."""
        with self.journal.open("ab", buffering=0) as file:
            file.write(f"{kind}\t{self.role}\t{text}\n".encode())


class Fatal(list[Operation]):
    """A trace that kills this process once it has as many steps as it may."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self._life = life
        self._left = life.steps

    def append(self, step: Operation) -> None:
        super().append(step)
        if self._left is None or (self._life.counts_changes and step.kind not in CHANGES):
            return
        self._left -= 1
        if self._left == 0:
            self._life.note("killed", f"{step.kind} {kind_of(step.path)}")
            os.kill(os.getpid(), signal.SIGKILL)


def kind_of(path: str) -> str:
    """What a file is: of the table, of its log, or of the topics' own."""
    of = "table" if "/table/" in path else "log"
    return f"{of} {path.rpartition('.')[2] if '.' in path.rpartition('/')[2] else 'other'}"


@contextmanager
def small() -> Iterator[None]:
    """Let units, tiers and checkpoints be small in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "UNIT_BYTES", 700)
        patch.setattr(building, "STEP_UNITS", 2)
        patch.setattr(table_files, "TIER_FILES", 3)
        patch.setattr(delta_log, "CHECKPOINT_INTERVAL", 4)
        yield


def make_topics(log_dir: str, catalog: Catalog) -> list[str]:
    """Make a log dir with topics of every kind, all with tables; return their names."""
    admin = AdminClient(log_dir)
    admin.create_topics(
        [NewTopic(name, PARTITIONS, {**WITH_TABLE, **one}) for name, one in CONFIGS.items()]
    )
    options = ImportOptions(topics=IMPORTED, flush=False, config=WITH_TABLE)
    reports = import_log_dirs(admin, catalog, [str(BROKER)], options)
    assert {report.problem for report in reports} == {None}
    return [*CONFIGS, *IMPORTED]


def live(life: Life) -> None:
    """Do the work of one life; what goes wrong is written down."""
    files = TracingFiles(LocalFiles(life.log_dir), Fatal(life))
    catalog = Catalog(files, flush=False, after_commit=keep_house_now)
    draw = random.Random(life.seed)
    try:
        with small():
            ROLES[life.role](life, catalog, draw)
    except Exception as error:  # noqa: BLE001 - nothing may fail, whatever it is
        life.note("failed", repr(error))


# --- writing -------------------------------------------------------------------------------------


class Live(Instance):
    """An instance whose clock is the machine's."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.transactions = Transactions(catalog)
        self.writer = AppendWriter(catalog, flush=False)


def write(life: Life, catalog: Catalog, draw: random.Random) -> None:
    """Do a few writes of any kind, one after the other."""
    instance = Live(catalog)
    for number in range(draw.randint(2, 6)):
        name = f"{life.seed}.{number}"
        kind = draw.choice(("records", "records", "gap", "transaction", "transaction", "delete"))
        try:
            if kind == "transaction":
                transact(instance, draw, name)
            elif kind == "delete":
                delete(life.log_dir, catalog, draw)
            else:
                produce(catalog, draw, name, has_gaps=kind == "gap")
        except CommitConflictError:
            continue


def produce(catalog: Catalog, draw: random.Random, name: str, *, has_gaps: bool) -> None:
    """Write records with all that a record may have."""
    topic = PLAIN if has_gaps else draw.choice((PLAIN, KEYED))
    partition, count = draw.randrange(PARTITIONS), draw.randint(1, 9)
    options = WriteOptions(
        flush=False,
        compression_type=draw.choice([one.name.lower() for one in Codec]),
        batch_size=draw.choice((1, 200, 16384)),
        segment_bytes=draw.choice((1000, 2000, None)),
        keeps_offsets=has_gaps,
        allow_offset_gaps=has_gaps,
    )
    plan = plan_write(catalog, topic, options)
    first = dict(plan.end_offsets).get(partition, 0)
    steps = np.array([draw.randint(1, 4) for _ in range(count)], np.int64)
    columns = RecordColumns(
        key=pa.array([_key(draw, topic) for _ in range(count)], pa.binary()),
        value=pa.array([_value(draw, f"{name}.{one}") for one in range(count)], pa.binary()),
        timestamp=np.array(_times(draw, catalog.clock.now_ms(), count), np.int64),
        headers=pa.array([_headers(draw) for _ in range(count)], HEADERS_TYPE),
        offset=first - 1 + np.cumsum(steps) if has_gaps else None,
    )
    writer = TopicWriter(catalog.files, plan, catalog.clock, seed=0)
    writer.write(columns, pa.array([partition] * count, pa.int32()))
    commit_write(catalog, plan, writer.close())


def _key(draw: random.Random, topic: str) -> bytes | None:
    found = draw.choice(("a", "b", "c", "d", "", None))
    return b"e" if found is None and topic == KEYED else None if found is None else found.encode()


def _value(draw: random.Random, name: str) -> bytes | None:
    return draw.choice((None, b"", *[name.encode() * draw.choice((1, 1, 30))] * 6))


def _times(draw: random.Random, now_ms: int, count: int) -> list[int]:
    age = draw.choice((0, 0, 3 * DAY_MS))  # what retention of tables drops
    return [now_ms - age - draw.randint(0, 5000) for _ in range(count)]


def _headers(draw: random.Random) -> list[dict[str, Any]] | None:
    pairs = [
        {"key": draw.choice("hi"), "value": draw.choice((None, b"", b"x"))}
        for _ in range(draw.choice((0, 0, 1, 3)))
    ]
    return pairs or None


def transact(instance: Live, draw: random.Random, name: str) -> None:
    """A transaction over topics, which is committed, aborted or left open."""
    client = Client(instance, draw.choice(WRITERS))
    client.init()
    for _ in range(draw.randint(0, 1)):
        _send(client, draw, f"{name}.aborted")
        client.abort()
    _send(client, draw, f"{name}.sent")
    end = draw.choice((client.commit, client.commit, client.abort, None))
    if end is not None:
        end()


def _send(client: Client, draw: random.Random, name: str) -> None:
    for number in range(draw.randint(1, 4)):
        topic, partition = draw.choice((SENT, SENT, KEYED)), draw.randrange(PARTITIONS)
        client.add(partition, topic=topic)
        outcome = client.produce(f"{name}.{number}", partition, topic, key=b"t")
        assert isinstance(outcome, int), outcome


def delete(log_dir: str, catalog: Catalog, draw: random.Random) -> None:
    """Raise a log start a little."""
    topic, number = draw.choice((PLAIN, SENT)), draw.randrange(PARTITIONS)
    log = catalog.topic_image(catalog.topic(topic)).partition(number)
    before = min(log.log_start_offset + draw.randint(0, 6), log.last_stable_offset)
    AdminClient(log_dir).delete_records({(topic, number): before})


# --- jobs ----------------------------------------------------------------------------------------


def work(life: Life, catalog: Catalog, draw: random.Random) -> None:
    """Run a few jobs over the logs."""
    for _ in range(draw.randint(1, 3)):
        name = draw.choice(list(JOBS))
        job, options = JOBS[name]
        run(life, catalog, name, job, options)


def build(life: Life, catalog: Catalog, draw: random.Random) -> None:
    """Build the tables, twice: the second time there may be something to merge."""
    for _ in range(2):
        options = {"rebuild": draw.random() < REBUILDS}
        run(life, catalog, "build_table", building.build_table, options)
        time.sleep(draw.uniform(0, 0.02))


def run(life: Life, catalog: Catalog, name: str, job: Any, options: dict[str, Any]) -> None:
    """Run a job over all topics; its problems are anomalies."""

    def note(report: StepReport) -> None:
        for problem in report.outcome.problems if report.outcome else ():
            life.note("failed", f"{name}: {problem}")

    JobRun(name=name, job=job, options=options).run(JobContext(catalog, LocalFleet()), note)


ROLES: Final = {"writer": write, "worker": work, "builder": build}
