"""Records of a person, and what is left of them: every byte of a log dir, decoded."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sparklog.admin.erase import EraseReport, erase
from sparklog.fleet import LocalFleet
from sparklog.log import key_index
from sparklog.log_writer import WriteOptions
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.catalog import Catalog
from sparklog.record.decode import decode
from sparklog.record.kernels.key_hash import hash_rows
from sparklog.record.scan import scan_batches
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from tests import edits
from tests.logs import (
    OWN_FILES,
    Place,
    append,
    append_to,
    catalog,
    client,
    columns,
    image,
    rows,
)
from tests.sweeping import DAY_MS, later, sweep
from tests.tables import build

ALICE = "alice@example.org"
SECRET = "secret-of-hers"
COMPACTED = {"cleanup.policy": "compact", **OWN_FILES}
LZ4 = WriteOptions(compression_type="lz4", flush=False)


class Meanwhile(LocalFleet):
    """Does something once, after the first works of a title."""

    def __init__(self, title: str, act: Callable[[], object]) -> None:
        super().__init__()
        self._title = title
        self._acts = [act]

    def map(self, task: Any, works: Sequence[Any], what: str) -> list[Any]:
        answers = super().map(task, works, what)
        if what.startswith(self._title) and self._acts:
            self._acts.pop()()
        return answers


def keyed(log_dir: Place, partition: int = 0, options: Any = LZ4) -> None:
    """Nine records, every third of them hers."""
    names = [ALICE if number % 3 == 0 else f"key-{number}" for number in range(9)]
    said = [f"{SECRET if key == ALICE else 'v'}-{number}" for number, key in enumerate(names)]
    append(log_dir, partition, said, keys=names, options=options)


def left(log_dir: str) -> dict[int, list[int]]:
    """The offsets that can be read, by partition."""
    return {number: [row.offset for row in some] for number, some in rows(log_dir).items()}


def swept(log_dir: str) -> list[str]:
    """The files that hold something of hers, after vacuum has run on the next days."""
    for day in (2, 4):
        sweep(log_dir, clock=later(day * DAY_MS))
    return holding(log_dir, ALICE, SECRET)


def flip(path: Path, position: int) -> None:
    """Damage a byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def share(log_dir: Place, topics: Sequence[str] = ("t", "u")) -> None:
    """One shared segment: nine records of partition 0, two of partition 1, which `u` has, too."""
    found = catalog(log_dir)
    names = [ALICE if number % 3 == 0 else f"key-{number}" for number in range(9)]
    said = [f"{SECRET if key == ALICE else 'v'}-{number}" for number, key in enumerate(names)]
    records = columns([*said, "a", "b"], [*(one.encode() for one in names), b"x", b"y"])
    append_to(found, [0] * 9 + [1] * 2, records, options=LZ4)
    if "u" in topics:
        (entry,) = image(log_dir).partition(1).entries()
        edits.append(found, found.topic("u"), entry._replace(partition=0))


def produce(log_dir: str, keys: Sequence[Any], values: Sequence[Any], options: Any) -> None:
    """Write records, whose keys may be null, to partition 0."""
    records = columns(values, [None if key is None else key.encode() for key in keys])
    append_to(catalog(log_dir), 0, records, options=options)


def unshare(log_dir: str) -> None:
    """Merge the slices of `t` into files of their own; the one of `u` stays."""
    context = JobContext(Catalog(LocalFiles(log_dir), later()), LocalFleet())
    for step in merge_segments(context, ["t"], {"seal": False}):
        assert not step.execute().problems


def build_beside(log_dir: str, act: Callable[[], object]) -> None:
    """Build the table, and do something else between its reading and its commit."""
    build(JobContext(catalog(log_dir), Meanwhile("build table", act)))


def erased(
    log_dir: Place,
    *keys: str,
    topic: str = "t",
    dry_run: bool = False,
    files: Files | None = None,
) -> EraseReport:
    """Erase keys from a topic; with `files` through these."""
    if files is None:
        return client(log_dir).erase(topic, keys, dry_run=dry_run)
    return erase(Catalog(files), topic, keys, LocalFleet(), dry_run=dry_run)


def ends(log_dir: str) -> dict[int, int]:
    """The log end offset of each partition."""
    logs = image(log_dir).partitions
    return {number: log.log_end_offset for number, log in logs.items()}


def holding(log_dir: Place, *wanted: str) -> list[str]:
    """The files of a log dir that hold one of the texts, or a key's hash, raw or compressed."""
    texts = [one.encode() for one in wanted]
    return [
        path
        for path, data in _contents(log_dir)
        if any(_holds(path, part, texts) for part in _parts(path, data))
    ]


def _contents(log_dir: Place) -> Iterator[tuple[str, bytes]]:
    """Every file and its bytes, by path; on this machine whatever lies in the folder."""
    if isinstance(log_dir, str | Path):
        for file in sorted(Path(log_dir).rglob("*")):
            if file.is_file():
                yield str(file.relative_to(log_dir)), file.read_bytes()
    else:
        for path in sorted(one.path for one in log_dir.list(recursive=True)):
            yield path, bytes(log_dir.read(path))


def _holds(path: str, part: bytes, texts: Iterable[bytes]) -> bool:
    if path.endswith(".keyindex"):
        hashes = key_index.read_range(lambda at, size: part[at : at + size], len(part)).hashes
        return any(_hash(one) in hashes for one in texts)
    return any(one in part for one in texts)


def _parts(path: str, data: bytes) -> Iterator[bytes]:
    """The bytes of a file, and its values where they are compressed."""
    yield data
    if path.endswith(".log"):
        batches = scan_batches(data).batches
        batches = batches.take(~batches.is_control)
        for column in ("key", "value") if len(batches) else ():
            values = getattr(decode(data, batches, columns=(column,)), column)
            yield b"\n".join(one or b"" for one in values.to_pylist())
    if path.endswith(".parquet"):
        yield str(pq.read_table(io.BytesIO(data)).to_pylist()).encode()


def _hash(key: bytes) -> int:
    hashes = np.empty(1, np.int64)
    ends = np.frombuffer(np.array([0, len(key)], np.int32).tobytes(), np.int32)
    hash_rows(ends, np.frombuffer(key, np.uint8), hashes)
    return int(hashes[0])
