"""What is left of a key and its values: every byte of a log dir, decoded as far as it can be."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sparklog.admin import AdminClient
from sparklog.admin.erase import EraseReport, erase
from sparklog.fleet import LocalFleet
from sparklog.log import key_index
from sparklog.record.decode import decode
from sparklog.record.kernels.key_hash import hash_rows
from sparklog.record.scan import scan_batches
from sparklog.storage.files import Files
from tests.logs import catalog


def erased(
    log_dir: str,
    *keys: str,
    topic: str = "t",
    dry_run: bool = False,
    files: Files | None = None,
) -> EraseReport:
    """Erase keys from a topic; with `files` through these."""
    if files is None:
        return AdminClient(log_dir).erase(topic, keys, dry_run=dry_run)
    from sparklog.metadata.catalog import Catalog

    return erase(Catalog(files), topic, keys, LocalFleet(), dry_run=dry_run)


def ends(log_dir: str, topic: str = "t") -> dict[int, int]:
    """The log end offset of each partition."""
    found = catalog(log_dir)
    logs = found.topic_image(found.topic(topic)).partitions
    return {number: log.log_end_offset for number, log in logs.items()}


def holding(log_dir: str, *wanted: str) -> list[str]:
    """The files of a log dir that hold one of the texts, or a key's hash, raw or compressed."""
    texts = [one.encode() for one in wanted]
    return [
        str(path.relative_to(log_dir))
        for path in sorted(Path(log_dir).rglob("*"))
        if path.is_file() and any(_holds(path, part, texts) for part in _parts(path))
    ]


def _holds(path: Path, part: bytes, texts: Iterable[bytes]) -> bool:
    if path.suffix == ".keyindex":
        hashes = key_index.read_range(lambda at, size: part[at : at + size], len(part)).hashes
        return any(_hash(one) in hashes for one in texts)
    return any(one in part for one in texts)


def _parts(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and its values where they are compressed."""
    data = path.read_bytes()
    yield data
    if path.suffix == ".log":
        batches = scan_batches(data).batches
        batches = batches.take(~batches.is_control)
        for column in ("key", "value") if len(batches) else ():
            values = getattr(decode(data, batches, columns=(column,)), column)
            yield b"\n".join(one or b"" for one in values.to_pylist())
    if path.suffix == ".parquet":
        yield str(pq.read_table(io.BytesIO(data)).to_pylist()).encode()


def _hash(key: bytes) -> int:
    hashes = np.empty(1, np.int64)
    ends = np.frombuffer(np.array([0, len(key)], np.int32).tobytes(), np.int32)
    hash_rows(ends, np.frombuffer(key, np.uint8), hashes)
    return int(hashes[0])
