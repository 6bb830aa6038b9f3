"""What a change may not do: whoever passes these checks may commit.

They are made on every try, on the snapshot that the plan saw, so what somebody else committed in
between is known.
"""

from collections.abc import Iterable
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from sparklog.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    LateWriterError,
    OffsetOutOfRangeError,
    TopicClosedError,
    UsageError,
)
from sparklog.log.names import parse_segment_name, uuid7_ms
from sparklog.manifest.store import NEW_PARTITION, Change, PartitionState, Snapshot
from sparklog.manifest.tables import PATH_COLUMNS, segment_entries
from sparklog.model import SegmentEntry

Span = tuple[int, int]


def check_change(snapshot: Snapshot, change: Change) -> None:
    """Refuse a change that the snapshot does not allow (any more).

    Raises TopicClosedError, LateWriterError, FencedLeaderEpochError, CommitConflictError (a segment
    to replace or remove is no longer live), OffsetOutOfRangeError (offsets that do not continue the
    log, or a log start behind the log end) or UsageError (a replacement of other offsets).
    """
    if snapshot.closed_ms is not None:
        raise TopicClosedError("the topic is being deleted: nothing more can be written to it")
    for partition, epoch in change.leader_epochs.items():
        current = snapshot.state(partition).leader_epoch
        if current > epoch:
            raise FencedLeaderEpochError(
                f"partition {partition}: planned with leader epoch {epoch}, it is {current} now"
            )
    touched = _touched(snapshot, change)
    _check_replacements(change.replace, touched)
    _check_ages(snapshot, change, touched)
    removed = [touched[path] for path in change.remove]
    ends = _check_places(snapshot, change, removed)
    _check_starts(snapshot, change, ends)


def _touched(snapshot: Snapshot, change: Change) -> dict[str, SegmentEntry]:
    """Return the live segments that a change touches, by path."""
    paths = change.touched
    if not paths:
        return {}
    live = snapshot.live
    rows = live.filter(pc.is_in(live.column("log_path"), pa.array(sorted(paths))))
    found = {entry.log_path: entry for entry in segment_entries(rows)}
    if len(found) != len(paths):
        gone = sorted(paths - found.keys())
        raise CommitConflictError(f"segments are no longer live: {', '.join(gone[:3])}")
    return found


def _check_replacements(replace: Iterable[SegmentEntry], live: dict[str, SegmentEntry]) -> None:
    for entry in replace:
        old = live[entry.log_path]
        if _place(entry) != _place(old):
            raise UsageError(
                f"{entry.log_path}: a replacement holds other offsets, {_place(entry)} instead of "
                f"{_place(old)} (partition, base offset, next offset)"
            )


def _place(entry: SegmentEntry) -> tuple[int, int, int]:
    return entry.partition, entry.base_offset, entry.next_offset


def _check_ages(snapshot: Snapshot, change: Change, live: dict[str, SegmentEntry]) -> None:
    """Refuse files, named for the first time, that vacuum may have taken for orphans."""
    if not snapshot.vacuum_horizon_ms:
        return
    known = {path for entry in live.values() for path in _paths(entry)}
    for entry in (*change.segments, *change.replace):
        for path in _paths(entry):
            name = parse_segment_name(path.rpartition("/")[2])
            is_old = name and name.uuid and uuid7_ms(name.uuid) < snapshot.vacuum_horizon_ms
            if is_old and path not in known:
                raise LateWriterError(
                    f"{path}: written before the vacuum horizon {snapshot.vacuum_horizon_ms} "
                    f"(ms), so it may be gone: write it again"
                )


def _paths(entry: SegmentEntry) -> Iterable[str]:
    paths = (getattr(entry, name) for name in PATH_COLUMNS)
    return (path for path in paths if path is not None)


def _check_places(
    snapshot: Snapshot, change: Change, removed: Iterable[SegmentEntry]
) -> dict[int, int]:
    """Return the log end offset of each partition that grows."""
    spans = _spans(removed)
    inside: dict[int, list[SegmentEntry]] = {}
    ends: dict[int, int] = {}
    for entry in change.segments:
        if entry.next_offset <= entry.base_offset:
            raise OffsetOutOfRangeError(f"{entry.log_path}: a segment holds at least one offset")
        low, high = spans.get(entry.partition, (0, 0))
        if low <= entry.base_offset and entry.next_offset <= high:
            inside.setdefault(entry.partition, []).append(entry)
            continue
        end = ends.get(entry.partition, snapshot.state(entry.partition).log_end_offset)
        if entry.base_offset < end or (entry.base_offset > end and not change.allow_gaps):
            raise OffsetOutOfRangeError(
                f"partition {entry.partition}: a segment at offset {entry.base_offset} does not "
                f"continue the log, whose end offset is {end}"
            )
        ends[entry.partition] = entry.next_offset
    for partition, entries in inside.items():
        _check_overlap(snapshot, change, partition, entries)
    return ends


def _spans(removed: Iterable[SegmentEntry]) -> dict[int, Span]:
    """Return per partition the offsets from the first to the last of the removed segments."""
    spans: dict[int, Span] = {}
    for entry in removed:
        low, high = spans.get(entry.partition, (entry.base_offset, entry.next_offset))
        spans[entry.partition] = min(low, entry.base_offset), max(high, entry.next_offset)
    return spans


def _check_overlap(
    snapshot: Snapshot, change: Change, partition: int, entries: list[SegmentEntry]
) -> None:
    """Refuse segments, in place of removed ones, that overlap each other or what stays."""
    live = snapshot.live
    stays = pc.and_(
        pc.equal(live.column("partition"), partition),
        pc.invert(pc.is_in(live.column("log_path"), pa.array(change.remove))),
    )
    rows = live.filter(stays).select(["base_offset", "next_offset"])
    spans = [*zip(*rows.to_pydict().values(), strict=True)]
    spans += [(entry.base_offset, entry.next_offset) for entry in entries]
    for (_, end), (start, _) in pairwise(sorted(spans)):
        if start < end:
            raise OffsetOutOfRangeError(
                f"partition {partition}: a segment at offset {start} overlaps one that ends at "
                f"{end}"
            )


def _check_starts(snapshot: Snapshot, change: Change, ends: dict[int, int]) -> None:
    for partition, state in change.partitions.items():
        end = PartitionState(log_end_offset=ends.get(partition, 0))
        grown = snapshot.states.get(partition, NEW_PARTITION).grown(state).grown(end)
        if grown.log_start_offset > grown.log_end_offset:
            raise OffsetOutOfRangeError(
                f"partition {partition}: the log start offset {grown.log_start_offset} would lie "
                f"behind the log end offset {grown.log_end_offset}"
            )
