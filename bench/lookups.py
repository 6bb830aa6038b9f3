"""A topic of many segments: how long it takes to open it, and to find an offset or a time in it.

Every record is a segment of its own, with its files on disk: 50,000 in one partition.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from bench.figures import Bar, Figure, elapsed_s
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.log_reader import TopicReader
from sparklog.log_writer import TopicWriter, WriteOptions, WritePlan, commit_write, plan_write
from sparklog.metadata.catalog import Catalog
from sparklog.record.rows import RecordColumns
from sparklog.storage.open import open_files

TOPIC = "bench"
SEGMENTS = 50_000
SEGMENTS_PER_COMMIT = 1000
LOOKUPS = 1000
# A batch holds one record at least; a segment of these holds one batch (271 bytes), not two.
ONE_RECORD_EACH = WriteOptions(batch_size=1, segment_bytes=400, flush=False)


def run(settings: Settings) -> list[Figure]:
    """Seconds to open, milliseconds for one warm lookup."""
    group = f"a topic of {SEGMENTS:,} live segments"
    log_dir = settings.directory / "lookups"
    first_ms = fill(log_dir)
    rounds = 1 if settings.quick else settings.rounds
    opened = [elapsed_s(partial(_open, log_dir)) for _ in range(rounds)]
    reader = _open(log_dir)
    by_offset = _sampled(lambda at: reader.slices(0, at, at + 1))
    by_time = _sampled(lambda at: _found(reader, at, first_ms))
    return [
        Figure.of_rounds(group, "open", opened, "s", Bar(most=1)),
        Figure(group, "segment of an offset, warm", median(by_offset), "ms", Bar(most=1)),
        Figure(group, "offset of a timestamp, warm", median(by_time), "ms", Bar(most=1)),
    ]


def fill(log_dir: Path) -> int:
    """Makes the topic; returns the first record's time. Record i is i seconds later."""
    AdminClient(log_dir).create_topics([NewTopic(TOPIC)])
    catalog = Catalog(open_files(str(log_dir)), flush=False)
    plan = plan_write(catalog, TOPIC, ONE_RECORD_EACH)
    first_ms = plan.now_ms - SEGMENTS * 1000
    for start in range(0, SEGMENTS, SEGMENTS_PER_COMMIT):
        _write(catalog, plan, first_ms + np.arange(start, start + SEGMENTS_PER_COMMIT) * 1000)
    return first_ms


def one_more(log_dir: Path, first_ms: int, number: int) -> None:
    """Adds a segment of one record after those of `fill`, and after `number` more."""
    catalog = Catalog(open_files(str(log_dir)), flush=False)
    plan = plan_write(catalog, TOPIC, ONE_RECORD_EACH)
    _write(catalog, plan, np.array([first_ms + (SEGMENTS + number) * 1000]))


def _write(
    catalog: Catalog, plan: WritePlan, timestamps: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    value = pa.array([b"x" * 100] * len(timestamps), pa.binary())
    writer = TopicWriter(catalog.files, plan, SystemClock(), seed=0)
    writer.write(RecordColumns(value, value, timestamps))
    commit_write(catalog, plan, writer.close())


def _open(log_dir: Path) -> TopicReader:
    reader = TopicReader.open(Catalog(open_files(str(log_dir))), TOPIC)
    if len(reader.image.segments(0)) != SEGMENTS:
        raise RuntimeError(f"{len(reader.image.segments(0))} segments, not {SEGMENTS}")
    return reader


def _found(reader: TopicReader, offset: int, first_ms: int) -> None:
    """Looks up the time of a record, and checks that the record is what is found."""
    found = reader.list_offset(0, first_ms + offset * 1000)
    if found.offset != offset:
        raise RuntimeError(f"offset {found.offset} was found, not {offset}")


def _sampled(look_up: Callable[[int], object]) -> Sequence[float]:
    """Milliseconds of lookups all over the topic, after one that loads what they need."""
    look_up(0)
    return [
        elapsed_s(partial(look_up, at)) * 1000 for at in range(0, SEGMENTS, SEGMENTS // LOOKUPS)
    ]
