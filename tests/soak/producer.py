"""A producer: writes version after version, and after every death the last one again."""

import os
import signal
import time
import warnings
from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from sparklog.clock import SystemClock
from sparklog.errors import SparklogWarning
from sparklog.log_writer import (
    PRODUCE,
    TopicWriter,
    WriteOptions,
    WritePlan,
    in_order,
    plan_write,
    write_of,
)
from sparklog.model import SegmentEntry
from sparklog.record.rows import RecordColumns
from tests.soak.history import Abandoned, Answered, Begun, Journal
from tests.soak.setup import TOPIC, Life
from tests.soak.values import pack, to_bytes

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SUICIDES = 0.03
"""How often a producer kills itself at each of two places that a kill from outside rarely hits."""
ABANDONED = 0.03
REPEATED = 0.1
"""How often an answered version is written again, or one before it."""
REPEATED_AFTER_S = 1.0
"""How long it may wait before: others commit meanwhile, and fold what remembers the answer."""


def produce(life: Life) -> None:
    """Write until the deadline; replay first what an earlier life had begun."""
    producer = Producer(life)
    producer.recover()
    while not life.settles and time.monotonic() < life.deadline:
        producer.write_next()


def columns(values: Sequence[int], now_ms: int) -> RecordColumns:
    """The records of these values: some have a key."""
    return RecordColumns(
        key=pa.array([None if value % 3 else b"%d" % (value % 7) for value in values], pa.binary()),
        value=pa.array([to_bytes(value) for value in values], pa.binary()),
        timestamp=np.full(len(values), now_ms, np.int64),
    )


class Producer:
    """One life of a producer."""

    topic = TOPIC
    columns = staticmethod(columns)

    def __init__(self, life: Life) -> None:
        self._life = life
        self._random = life.draws()
        self._catalog = life.catalog()
        self._journal: Journal = life.journal()
        self._answered = [event.version for event in self._journal.of(Answered)]
        abandoned = [event.version for event in self._journal.of(Abandoned)]
        self._next = max((*self._answered, *abandoned), default=-1) + 1

    def recover(self) -> None:
        """Replay the version that was begun and not answered."""
        begun = self._journal.of(Begun)
        if begun and begun[-1].version == self._next:
            self._commit(self._write(begun[-1]), self._next)
            self._next += 1

    def write_next(self) -> None:
        """Write one more version, and sometimes an old one again."""
        begun = self._drawn(self._next)
        self._journal.note(begun)
        segments = self._write(begun)
        if self._random.random() < ABANDONED:
            self._journal.note(Abandoned(self._life.number, self._next), durably=True)
        else:
            self._maybe_die()
            self._commit(segments, self._next)
        self._next += 1
        if self._answered and self._random.random() < REPEATED:
            time.sleep(self._random.choice((0, 0, REPEATED_AFTER_S)))
            self._commit(self._write(begun), self._random.choice(self._answered[-2:]))

    def _drawn(self, version: int) -> Begun:
        """The values of a version; what is replayed must be what was written first."""
        draw = self._life.draws(version)
        count = self._catalog.topic(self.topic).num_partitions
        chosen = draw.sample(range(count), draw.randint(1, count))
        values: dict[int, list[int]] = {}
        for row in range(draw.randint(1, 80)):
            values.setdefault(draw.choice(chosen), []).append(pack(self._life.number, version, row))
        return Begun(self._life.number, version, sorted(values.items()))

    def _write(self, begun: Begun) -> tuple[WritePlan, list[SegmentEntry]]:
        """Write the values as up to three tasks would, each its share of the rows."""
        draw = self._random
        options = WriteOptions(
            compression_type=draw.choice(CODECS),
            batch_size=draw.choice((100, 1000, 16384)),
            segment_bytes=draw.choice((2_000, 10_000, 1 << 20)),
        )
        plan = plan_write(self._catalog, self.topic, options)
        rows = sorted((value, partition) for partition, part in begun.values for value in part)
        cuts = sorted(draw.randint(0, len(rows)) for _ in range(draw.randint(0, 2)))
        tasks = enumerate(zip((0, *cuts), (*cuts, len(rows)), strict=True))
        results = [(task, self._written(plan, rows[start:stop])) for task, (start, stop) in tasks]
        return plan, in_order(results)

    def _commit(self, written: tuple[WritePlan, list[SegmentEntry]], version: int) -> None:
        plan, segments = written
        number, began = self._life.number, time.monotonic_ns()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SparklogWarning)  # an old version has no receipt
            write = write_of(plan, segments, app_id=f"producer-{number}", version=version)
            (committed,) = self._catalog.commit_all([write], operation=PRODUCE)
        ended = time.monotonic_ns()
        self._maybe_die()
        got = committed.ranges
        ranges = None if got is None else [(part.partition, part.start, part.end) for part in got]
        self._journal.note(
            Answered(number, version, ranges, committed.replayed, began, ended), durably=True
        )
        self._answered.append(version)

    def _written(self, plan: WritePlan, rows: list[tuple[int, int]]) -> list[SegmentEntry]:
        draw = self._random
        writer = TopicWriter(self._catalog.files, plan, SystemClock(), draw.randrange(2**32))
        for _, part in groupby(enumerate(rows), lambda row: row[0] // 25):
            values, partitions = zip(*(row for _, row in part), strict=True)
            writer.write(self.columns(values, plan.now_ms), pa.array(partitions, pa.int32()))
        return writer.close()

    def _maybe_die(self) -> None:
        if not self._life.settles and self._random.random() < SUICIDES:
            os.kill(os.getpid(), signal.SIGKILL)
