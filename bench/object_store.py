"""A log in an object store that is far away: 30 ms a request, 50 MB/s a connection.

moto stands behind a proxy that is as slow as that (`tests.store_proxy`). The floor is obstore
alone, which fetches the same ranges one after another; we fetch, check and decode every record.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import obstore
import pyarrow as pa

from bench.figures import Bar, Figure, elapsed_s
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.log.windows import WINDOW_BYTES
from sparklog.log_reader import TopicReader
from sparklog.log_reader.opened import log_path
from sparklog.log_reader.slices import read_slices
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog
from sparklog.record.rows import RecordColumns
from sparklog.storage import open_files
from sparklog.storage.objects.object_store import ObjectFiles
from tests.s3 import S3LogDir, start_s3_server
from tests.store_proxy import StoreProxy

TOPIC = "bench"
GROUP = "an object store, 30 ms a request, 50 MB/s a connection"
RECORDS = 640_000
VALUE_BYTES = 90
PUTS = 300


def run(settings: Settings) -> list[Figure]:
    """MB/s of a scan beside obstore alone, and milliseconds of a commit's put."""
    rounds = 1 if settings.quick else settings.rounds
    with _far_away() as (place, proxy):
        _fill(place)
        far = place.options | {"AWS_ENDPOINT_URL": proxy.endpoint}
        files = open_files(place.uri, far)
        catalog = Catalog(files, SystemClock())
        topic = catalog.topic(TOPIC)
        reader = TopicReader(files, topic, catalog.topic_image(topic))
        slices = list(reader.slices(0, 0, RECORDS))
        megabytes = sum(piece.segment.log_bytes for piece in slices) / 1e6

        def scan() -> None:
            found = read_slices(files, reader.directory, slices)
            assert sum(records.num_rows for records in found) == RECORDS

        def fetch() -> None:
            assert isinstance(files, ObjectFiles)
            for piece in slices:
                path, size = log_path(reader.directory, piece.segment), piece.segment.log_bytes
                for start in range(0, size, WINDOW_BYTES):
                    length = min(WINDOW_BYTES, size - start)
                    obstore.get_range(files.store, path, start=start, length=length)

        scan()
        alone, ours = [], []
        for _ in range(rounds):
            alone.append(megabytes / elapsed_s(fetch))
            ours.append(megabytes / elapsed_s(scan))
    least = Bar(least=0.8 * float(np.median(alone)))
    return [
        Figure.of_rounds(GROUP, "obstore alone, the same ranges", alone, "MB/s"),
        Figure.of_rounds(GROUP, "read and decode a log", ours, "MB/s", least),
        *_puts(settings.directory),
    ]


def _puts(directory: Path) -> Iterator[Figure]:
    """Time a put of a commit on a local disk, and in turn a file that is written and synced."""
    files = open_files(str(directory / "puts"))
    data, floor, ours = bytes(700), [], []
    for number in range(PUTS):
        path = f"log/{number:020}.json"
        ours.append(1e3 * elapsed_s(partial(files.put_new, path, data)))
        floor.append(1e3 * elapsed_s(partial(_synced, directory / "puts" / f"{number}", data)))
    most = Bar(most=1.5 * float(np.median(floor)))
    yield Figure("a local disk", "write a new file, fdatasync", float(np.median(floor)), "ms")
    yield Figure("a local disk", "put_new, durable", float(np.median(ours)), "ms", most)


def _synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(descriptor, data)
    os.fdatasync(descriptor)
    os.close(descriptor)


@contextmanager
def _far_away() -> Iterator[tuple[S3LogDir, StoreProxy]]:
    with tempfile.TemporaryDirectory() as logs:
        server, process = start_s3_server(Path(logs) / "moto.log")
        try:
            with StoreProxy(server.endpoint, delay_s=0.03, bytes_per_s=50e6) as proxy:
                yield server.new_log_dir(), proxy
        finally:
            process.terminate()
            process.wait()


def _fill(place: S3LogDir) -> None:
    AdminClient(place.uri, place.options).create_topics([NewTopic(TOPIC)])
    catalog = Catalog(open_files(place.uri, place.options), SystemClock())
    plan = plan_write(catalog, TOPIC, WriteOptions())
    writer = TopicWriter(catalog.files, plan, SystemClock(), seed=1)
    values = pa.array([bytes(VALUE_BYTES)] * RECORDS, pa.binary())
    times = np.full(RECORDS, plan.now_ms, np.int64)
    writer.write(RecordColumns(pa.nulls(RECORDS, pa.binary()), values, times))
    commit_write(catalog, plan, writer.close())
