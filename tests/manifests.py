"""Segments, plans and stores for tests of manifests: rows of files that nobody looks at."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from sparklog.clock import Clock, ManualClock
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, segment_name, uuid7
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.manifest.store import Change, Committed, ManifestStore, Plan, Snapshot, at_log_end
from sparklog.model import SegmentEntry
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles

NOW_MS = ManualClock().now_ms()
DIRECTORY = "topic/manifest"


def segment(
    partition: int = 0, records: int = 10, made_ms: int = NOW_MS, **columns: Any
) -> SegmentEntry:
    """A segment of a new file, numbered from 0 as a writer does it."""
    name = segment_name(0, uuid7(made_ms, os.urandom(10)), LOG_SUFFIX)
    values = {"log_path": f"t-{partition}/{name}", "log_bytes": 100, "created_ms": made_ms}
    return SegmentEntry(
        **{
            "partition": partition,
            "base_offset": 0,
            "next_offset": records,
            "file_base_offset": 0,
            **values,
            **columns,
        }
    )


def at(base_offset: int, entry: SegmentEntry) -> SegmentEntry:
    """The segment with its offsets given."""
    return replace(entry, base_offset=base_offset, next_offset=base_offset + entry.offset_span)


def indexed(entry: SegmentEntry, made_ms: int = NOW_MS) -> SegmentEntry:
    """The segment with a new index."""
    name = segment_name(0, uuid7(made_ms, os.urandom(10)), INDEX_SUFFIX)
    return replace(entry, index_path=f"t-{entry.partition}/{name}", index_bytes=8)


def appending(*entries: SegmentEntry, **change: Any) -> Plan:
    """A plan that puts the segments at the log end, whatever that is by then."""
    return lambda snapshot: Change(segments=at_log_end(snapshot, entries), **change)


def changing(**change: Any) -> Plan:
    """A plan that asks nothing of the snapshot."""
    return lambda _: Change(**change)


def append(store: ManifestStore, *entries: SegmentEntry, **transaction: Any) -> Committed:
    """Append in one commit."""
    return store.commit(appending(*entries), **transaction)


def removing(*paths: str, removed_ms: int = NOW_MS) -> Plan:
    """A plan that removes live segments."""
    return changing(remove=paths, removed_ms=removed_ms)


def spans(snapshot: Snapshot, partition: int = 0) -> list[tuple[int, int]]:
    """The live segments of a partition: [(base offset, next offset)]."""
    return [(entry.base_offset, entry.next_offset) for entry in snapshot.segments(partition)]


def interrupted(plan: Plan, interruption: Callable[[], object], times: int = 1) -> Plan:
    """The plan, with somebody else coming between planning and committing the first `times`."""
    calls: list[int] = []

    def interrupted_plan(snapshot: Snapshot) -> Any:
        calls.append(1)
        planned = plan(snapshot)
        if len(calls) <= times:
            interruption()
        return planned

    return interrupted_plan


never: Plan = Mock(side_effect=AssertionError("planned, although everything is known"))
"""A plan that must not be asked."""


def delta_store(
    folder: Path | Files, clock: Clock | None = None, *, flush: bool = False
) -> DeltaManifestStore:
    """A store over a table in `folder`, made when it is not there."""
    files = LocalFiles(str(folder)) if isinstance(folder, Path) else folder
    return DeltaManifestStore.create(files, DIRECTORY, clock or ManualClock(), flush=flush)


class BusyClock(ManualClock):
    """A clock of a world in which others do something whenever somebody waits."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        super().__init__(now_ms)
        self.meanwhile: Callable[[], object] = lambda: None

    def sleep_ms(self, ms: float) -> None:
        super().sleep_ms(ms)
        self.meanwhile()
