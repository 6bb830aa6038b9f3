"""In and out of Kafka: dump-log beside Kafka's own tool, import and export of a directory."""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.figures import Bar, Figure, elapsed_s
from bench.settings import Settings
from sparklog.admin import AdminClient
from sparklog.fleet import LocalFleet
from sparklog.interop.broker_files.checkpoints import LEADER_EPOCH, encode_epochs
from sparklog.interop.exports.export_log import ExportOptions, export_to
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.metadata.catalog import Catalog
from sparklog.record.encode import BatchSettings, encode
from sparklog.record.rows import RecordColumns
from sparklog.storage import open_files
from tests.kafka.jars import KAFKA, class_path, java

GROUP = "interop"
DUMPED_RECORDS = 100_000
"""Of 1 KB: a segment of 100 MB."""
DUMP_RUNS = 4
CHECKED_BYTES = 512 * 1024 * 1024
SEGMENTS = 20_000
DUMP_TIMES_FASTER = 5.0
SEGMENTS_PER_SECOND = 5000.0
CHECKED_MB_PER_SECOND = 500.0


def run(settings: Settings) -> list[Figure]:
    """Measure dumping, importing and exporting."""
    rounds = settings.rounds
    segments = SEGMENTS // 4 if settings.quick else SEGMENTS
    return [
        *_dump(settings.directory / "dump", rounds),
        *_links(settings.directory / "links", rounds, segments),
        *_checked(settings.directory / "checked", rounds),
    ]


def _dump(directory: Path, rounds: int) -> list[Figure]:
    """Time beyond that of an empty file, of both programs, taking turns."""
    empty, full = directory / "empty", directory / "full"
    _write_segment(empty, 0, 0)
    _write_segment(full, 0, DUMPED_RECORDS)
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(rounds):
        theirs.append(_beyond_empty(_kafka_tool(), empty, full))
        ours.append(_beyond_empty(_our_tool(), empty, full))
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    faster = Bar(least=DUMP_TIMES_FASTER)
    return [
        Figure.of_rounds(GROUP, "kafka-dump-log.sh, 100 MB of 1 KB records, deep", theirs, "s"),
        Figure.of_rounds(GROUP, "dump-log, the same", ours, "s"),
        Figure.of_rounds(GROUP, "dump-log, times as fast", ratios, "x", faster),
    ]


def _beyond_empty(command: Sequence[str], empty: Path, full: Path) -> float:
    """The shortest of several runs, less that of an empty file: starts vary by more than a dump."""
    times: dict[Path, list[float]] = {empty: [], full: []}
    for _ in range(DUMP_RUNS):
        for folder, seconds in times.items():
            seconds.append(elapsed_s(partial(_dumped, command, folder)))
    return min(times[full]) - min(times[empty])


def _dumped(command: Sequence[str], folder: Path) -> None:
    file = folder / f"{0:020d}.log"
    arguments = [*command, "--deep-iteration", "--files", str(file)]
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def _kafka_tool() -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return [java(), quiet, "-cp", class_path(KAFKA), "kafka.tools.DumpLogSegments"]


def _our_tool() -> list[str]:
    return [sys.executable, "-c", "from sparklog.cli import main; main()", "dump-log"]


def _links(directory: Path, rounds: int, segments: int) -> list[Figure]:
    """Import and export of small sealed segments, planned, linked and committed."""
    broker = directory / "broker"
    for number in range(segments):
        _write_segment(broker / "t-0", number * 10, 10)
    # A broker keeps producers (none here) and leader epochs in every partition's directory.
    (broker / "t-0" / f"{(segments - 1) * 10:020d}.snapshot").write_bytes(
        bytes.fromhex("000148674bc700000000")
    )
    (broker / "t-0" / LEADER_EPOCH).write_bytes(encode_epochs([(0, 0)]))
    os.sync()
    imports: list[float] = []
    exports: list[float] = []
    for turn in range(rounds):
        log_dir = str(directory / f"log-{turn}")
        catalog = Catalog(open_files(log_dir), flush=False)
        admin = AdminClient(log_dir)
        options = ImportOptions(check=False, flush=False)
        taken = elapsed_s(partial(import_log_dirs, admin, catalog, [str(broker)], options))
        target = str(directory / f"out-{turn}")
        plain = ExportOptions(check=False, link=True, flush=False)
        written = elapsed_s(partial(export_to, catalog, target, plain))
        imports.append(segments / taken)
        exports.append(segments / written)
    bar = Bar(least=SEGMENTS_PER_SECOND)
    return [
        Figure.of_rounds(GROUP, "import by hard link, not checked", imports, "segments/s", bar),
        Figure.of_rounds(GROUP, "export by hard link", exports, "segments/s", bar),
    ]


def _checked(directory: Path, rounds: int) -> list[Figure]:
    """Import with every byte checked, on one core, of files that are on the disk already."""
    broker = directory / "broker"
    size = _write_segment(broker / "t-0", 0, CHECKED_BYTES // 1100)
    _write_segment(broker / "t-0", CHECKED_BYTES // 1100, 1)
    os.sync()
    rates: list[float] = []
    for turn in range(rounds):
        log_dir = str(directory / f"log-{turn}")
        catalog, admin = Catalog(open_files(log_dir)), AdminClient(log_dir)
        work = (admin, catalog, [str(broker)], ImportOptions(), LocalFleet())
        taken = elapsed_s(partial(import_log_dirs, *work))
        rates.append(size / taken / 1e6)
    bar = Bar(least=CHECKED_MB_PER_SECOND)
    return [Figure.of_rounds(GROUP, "import, every byte checked", rates, "MB/s a core", bar)]


def _write_segment(folder: Path, base: int, count: int) -> int:
    """A sealed segment of 1 KB records with its indexes; returns its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    builder = SegmentBuilder(base, 0)
    stem = folder / f"{base:020d}"
    with stem.with_suffix(".log").open("wb") as log:
        for start in range(base, base + count, 10_000):
            rows = min(10_000, base + count - start)
            value = os.urandom(512).hex().encode()
            columns = RecordColumns(
                pa.array([b"key"] * rows),
                pa.array([value] * rows),
                np.arange(start, start + rows, dtype=np.int64),
            )
            (stream,) = encode(columns, None, 1, np.array([start], np.int64), BatchSettings())
            stream.data.tofile(log)
            builder.append(stream.batches)
    _, indexes = builder.finish()
    stem.with_suffix(".index").write_bytes(indexes.offset_index)
    stem.with_suffix(".timeindex").write_bytes(indexes.time_index)
    return stem.with_suffix(".log").stat().st_size
