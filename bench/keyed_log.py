"""Logs of keyed records, written straight into segments, for the measurements of compaction.

A record is a key of 8 bytes (its number, little-endian) and a value of 92; 16 KB a batch, as a
producer with the default batch.size sends them.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.admin import AdminClient, NewTopic
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_writer import SegmentFile
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.record.encode import BatchSettings, RecordColumns, encode
from sparklog.storage import open_files

Int64s = NDArray[np.int64]

TOPIC: Final = "keyed"
T0: Final = 1_700_000_000_000
VALUE_BYTES: Final = 92
CHUNK: Final = 500_000
COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}


def new_log(log_dir: Path, segment_bytes: int) -> Catalog:
    """A log dir with one compacted topic of one partition."""
    configs = {**COMPACTED, "segment.bytes": segment_bytes}
    AdminClient(log_dir).create_topics([NewTopic(TOPIC, 1, configs)])
    return Catalog(open_files(str(log_dir)))


def append(catalog: Catalog, segments: Sequence[Int64s]) -> None:
    """Append a segment of records with these keys each; then one with a record of its own key.

    The last one is the newest segment, which is never compacted: so all segments of `segments` are.
    """
    topic = catalog.topic(TOPIC)
    base = catalog.topic_image(topic).partition(0).log_end_offset
    entries = []
    for keys in (*segments, np.array([-1], np.int64)):
        entries.append(_segment(catalog, topic, base, keys))
        base += len(keys)
    edit = TopicEdit(segments=entries)
    catalog.commit(topic, lambda _: edit, operation="PRODUCE")


def topic_image(catalog: Catalog) -> TopicImage:
    """The topic as it is."""
    return catalog.topic_image(catalog.topic(TOPIC))


def shuffled(records: int, keys: int, segments: int, seed: int = 1) -> list[Int64s]:
    """The keys of segments of the same size: each key about as often as any other, in no order."""
    drawn = np.random.default_rng(seed).permutation(np.arange(records, dtype=np.int64) % keys)
    return np.array_split(drawn, segments)


def _segment(
    catalog: Catalog, topic: TopicDescription, base_offset: int, keys: Int64s
) -> SegmentEntry:
    now_ms = catalog.clock.now_ms()
    file = SegmentFile(catalog.files, topic, SegmentBuilder(base_offset, 0), now_ms)
    for start, chunk in zip(count(0, CHUNK), _chunks(keys), strict=False):
        offset = np.array([base_offset + start], np.int64)
        (stream,) = encode(_records(chunk), None, 1, offset, BatchSettings())
        file.append(stream.batches, stream.data)
    entry = file.close(now_ms)
    catalog.files.sync(file.paths)
    return entry


def _chunks(keys: Int64s) -> Iterator[Int64s]:
    for start in range(0, len(keys), CHUNK):
        yield keys[start : start + CHUNK]


def _records(keys: Int64s) -> RecordColumns:
    rows = len(keys)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), rows, [None, pa.py_buffer(keys)])
    return RecordColumns(
        key=fixed.cast(pa.binary()),
        value=pa.repeat(pa.scalar(b"x" * VALUE_BYTES), rows),
        timestamp=np.full(rows, T0, np.int64),
    )
