"""Compares one segment with its row and its indexes; a task of `verify`.

It reads the log once, checks every checksum and every offset, and compares the row, the offset
index and the time index with the log. Of a key index it checks size, form and checksums.
`verified_producers` follows the producers and transactions of its batches. It writes nothing.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError, CorruptRecordError
from sparklog.indexes import key_index_problem, wrong_indexes
from sparklog.log.index_view import rises
from sparklog.log.indexer import Indexes
from sparklog.log.roll import RollPolicy
from sparklog.log.salvage import Damage, sound_windows
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log.windows import WINDOW_BYTES, SegmentLog, Window
from sparklog.log_reader.opened import log_path, opened
from sparklog.maintenance.verification.verified_producers import ProducersSeen, Traces
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.model import NO_TIMESTAMP, SegmentEntry, TopicDescription
from sparklog.record.batches import byte_view
from sparklog.record.checksum import extend_crc32c
from sparklog.storage.files import Files

Batches = NDArray[np.int64]
"""Shape (3, batches): position in the file, last offset as the file counts, largest timestamp."""

COUNTED: Final = (
    "log_crc32c",
    "batch_count",
    "record_count",
    "max_timestamp",
    "max_timestamp_delta",
    "codec",
    "max_leader_epoch",
    "producer_ids",
    "transactional",
)
"""Columns that can be compared without decoding records; None, in log or row, means unknown."""

_MEANING: Final = {
    "log_crc32c": "; base offsets or leader epochs may be wrong: no batch's checksum covers them"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWork:
    """The work of a task. `is_decoding`: also decode every record.

    `opened` are the open transactions of the partition, by the metadata.
    """

    files: Files
    topic: TopicDescription
    entry: SegmentEntry
    index_interval_bytes: int
    is_decoding: bool = False
    opened: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The findings about a segment; all are empty for a sound one.

    `log_problems`: damage of the `.log`, or a row that disagrees with it. `index_problems`: indexes
    that can be rebuilt. `other_problems`: records, and files that cannot be rebuilt. `lost`: the
    offsets [start, end) of the log that no sound batch has; all of them if `is_anothers`, which
    says that the file is another segment's. `content`: size and CRC-32C of a file with
    `log_problems`, None if it is missing or shared. `traces` are those of a segment without
    `log_problems`.
    """

    log_problems: tuple[str, ...] = ()
    index_problems: tuple[str, ...] = ()
    other_problems: tuple[str, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    is_missing: bool = False
    content: tuple[int, int] | None = None
    is_anothers: bool = False
    traces: Traces | None = None

    def on_file_of(self, owner: SegmentEntry, directory: str, entry: SegmentEntry) -> "Verdict":
        """Return the verdict on a segment in whose place the file of another lies."""
        problem = f"{log_path(directory, entry)}: it is the file of {log_path(directory, owner)}"
        return replace(
            self,
            log_problems=(*self.log_problems, problem),
            lost=((entry.base_offset, entry.next_offset),),
            is_anothers=True,
        )


def verified(work: VerifyWork) -> Verdict:
    """Check one segment. Damage is returned, not raised. Raises the other errors of reading."""
    files, entry, directory = work.files, work.entry, topic_directory(work.topic)
    path = log_path(directory, entry)
    policy = RollPolicy(index_interval_bytes=work.index_interval_bytes)
    builder = SegmentBuilder(entry.file_base_offset, entry.partition, policy)
    damages, seen = [], [np.empty((3, 0), np.int64)]
    producers = ProducersSeen(entry, work.opened)
    others = [*_other_problems(files, directory, entry)]
    stat = files.stat(path)
    if stat is None:
        return Verdict(
            log_problems=(f"{path}: the file is missing",),
            lost=((entry.base_offset, entry.next_offset),),
            is_missing=True,
        )
    for part in sound_windows(opened(files, directory, entry)):
        if isinstance(part, Damage):
            damages.append(part)
            continue
        size = int(part.batches.end_position[-1])
        data = byte_view(part.data)[int(part.batches.position[0]) : size]
        builder.append(part.batches, data=data)
        seen.append(_seen(part))
        producers.add(part.batches, byte_view(part.data))
        if work.is_decoding:
            others += _record_problems(part, path)
    if damages:
        return Verdict(
            log_problems=tuple(_line(path, damage) for damage in damages),
            other_problems=tuple(others),
            lost=tuple((damage.start_offset, damage.end_offset) for damage in damages),
            content=_content(files, directory, entry),
        )
    summary, indexes = builder.finish()
    problems = [
        f"{path}: {name} is {getattr(summary, name)}, its row says {getattr(entry, name)}"
        f"{_MEANING.get(name, '')}"
        for name in COUNTED
        if _differ(getattr(summary, name), getattr(entry, name))
    ]
    if not entry.is_shared and stat.bytes != entry.log_bytes:
        problems.append(f"{path}: it has {stat.bytes} bytes, its row says {entry.log_bytes}")
    return Verdict(
        log_problems=tuple(problems),
        index_problems=tuple(_index_problems(work, indexes, np.concatenate(seen, axis=1))),
        other_problems=tuple(others),
        content=_content(files, directory, entry) if problems else None,
        traces=None if problems else producers.finish(),
    )


def _content(files: Files, directory: str, entry: SegmentEntry) -> tuple[int, int] | None:
    if entry.is_shared:
        return None
    size = crc = 0
    while data := files.view(log_path(directory, entry), WINDOW_BYTES, size):
        size, crc = size + len(data), extend_crc32c(crc, data)
    return size, crc


def _record_problems(window: Window, path: str) -> Iterator[str]:
    """Yield problems of records although their batch's checksum is right: nothing repairs them."""
    # Imported only if records are decoded: it loads the kernels.
    from sparklog.log_reader.slices import decoded_in_groups

    entry = window.entry
    decoder = partial(window.decoded, {"timestamp"}, entry.base_offset, None)
    try:
        deque(decoded_in_groups(decoder, window.batches), maxlen=0)
    except CorruptRecordError as error:
        yield str(error.in_file(path, entry.log_position))


def _line(path: str, damage: Damage) -> str:
    return (
        f"{path}: bytes [{damage.position}, {damage.end_position}), offsets "
        f"[{damage.start_offset}, {damage.end_offset}): {damage.problem}"
    )


def _differ(found: object, said: object) -> bool:
    return found is not None and said is not None and found != said


def _seen(window: Window) -> Batches:
    batches = window.batches
    position = batches.position + window.position
    return np.stack([position, batches.last_offset, batches.max_timestamp])


def _index_problems(work: VerifyWork, indexes: Indexes, batches: Batches) -> Iterator[str]:
    files, entry, directory = work.files, work.entry, topic_directory(work.topic)
    if entry.index_bytes is not None and entry.time_index_bytes is not None:
        wrong = wrong_indexes(files, directory, entry, indexes)
        if wrong and not _are_valid(opened(files, directory, entry), batches):
            yield f"{log_path(directory, entry)}: its indexes are not those of the log"
    if entry.key_index_path is not None:
        problem = key_index_problem(files, directory, entry)
        if problem is not None:
            yield problem


def _other_problems(files: Files, directory: str, entry: SegmentEntry) -> Iterator[str]:
    path, size = f"{directory}/{entry.txn_index_path}", entry.txn_index_bytes
    stat = None if entry.txn_index_path is None else files.stat(path)
    if entry.txn_index_path is not None and (stat is None or size not in (None, stat.bytes)):
        found = "the file is missing" if stat is None else f"it has {stat.bytes} bytes"
        yield f"{path}: {found}, its row says {size} bytes"


def _are_valid(segment: SegmentLog, batches: Batches) -> bool:
    """Whether the indexes are valid, although they were built with another index.interval.bytes.

    Every entry must then belong to a batch.
    """
    try:
        index, times = segment.offset_index(), segment.time_index()
        for view in (index, times):
            if view is not None:
                view.sanity_check()
    except CorruptIndexError:
        return False
    if (index is not None) != bool(segment.entry.index_bytes):
        return False
    position, last_offset, max_timestamp = batches
    newest = np.maximum.accumulate(max_timestamp)
    risen = rises(newest, NO_TIMESTAMP)
    stamps = _pairs(newest[risen], last_offset[risen])
    named, told = (_pairs(*view.entries()) if view is not None else [] for view in (index, times))
    return (
        set(named) <= set(_pairs(last_offset, position))
        and set(told) <= set(stamps)
        and told[-1:] == stamps[-1:]
    )


def _pairs(first: NDArray[np.int64], second: NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(zip(first.tolist(), second.tolist(), strict=True))
