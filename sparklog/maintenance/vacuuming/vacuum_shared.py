"""Vacuum of shared segments, and the horizon of the log dir, which it needs.

    commits the horizon -> reads the image -> unlinks files -> drops rows

    without a live slice    after the longest delay of all topics, and if the segment is older than
                            the horizon: its file is unlinked, then its row dropped
    named by no row         if it is older than the horizon: unlinked
    of another name         kept and reported

The order is that of `vacuum_topic`, for the same reasons.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from sparklog.config.topic import TopicConfig, every_config
from sparklog.errors import StorageFullError
from sparklog.log.names import SHARED, born_ms
from sparklog.log.vacuum import horizon_above
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.maintenance.parts import parts_of
from sparklog.maintenance.vacuuming.deleting import Sum, delete_files, problems_of
from sparklog.metadata.plans.backups import Pinned, pinned
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image

VACUUM: Final = "VACUUM"
UNLINKING: Final = "unlinking shared segments"
FORGOTTEN_MAX: Final = 10_000
"""The most rows that one commit drops: other commits wait for it."""
One = TypeVar("One")


def rounds_of(rows: Iterable[One]) -> list[list[One]]:
    """Divide rows that are dropped into those of each commit."""
    return list(parts_of(rows, FORGOTTEN_MAX, lambda _: 1))


def shared_steps(context: JobContext, image: Image, sizes: Mapping[str, int]) -> Iterator[Step]:
    """Yield the step for shared segments, if there is anything to do.

    `sizes` are those of the files in `__shared`, by path; files with a live slice may be missing.
    Raises InvalidConfigError as `horizon_of`.
    """
    now_ms = context.clock.now_ms()
    garbage = _garbage(image, sizes, horizon_of(image, now_ms), now_ms)
    if rows := garbage.rows():
        yield Step(topic=SHARED, rows=rows, execute=partial(_execute, context, garbage))


def horizon_of(image: Image, now_ms: int) -> int:
    """Return the log dir's horizon in ms: now - the largest orphan retention of all topics.

    Raises InvalidConfigError if a topic's config cannot be parsed: it is unknown how long a file
    must stay.
    """
    return max(0, now_ms - max(config.orphan_retention_ms for config in _configs(image)))


def commit_horizon(context: JobContext, births_ms: Collection[int] | None) -> Image:
    """Commit the log dir's horizon if it rises, and return the image after that commit.

    `births_ms`: when the files were made that go. None: the horizon is as high as it may be.
    """
    now_ms = context.clock.now_ms()

    def plan(image: Image) -> Edit | Done:
        limit_ms = horizon_of(image, now_ms)
        horizon_ms = limit_ms if births_ms is None else horizon_above(births_ms, limit_ms)
        if horizon_ms <= image.horizon_ms:
            return Done()
        told = {"horizonMs": str(horizon_ms)}
        return Edit(operation=VACUUM, parameters=told, horizon_ms=horizon_ms)

    return context.catalog.log.commit(plan).image


def _configs(image: Image) -> list[TopicConfig]:
    """Return the configs of all topics, deleted ones too, and the defaults.

    A shared segment has slices of several topics: the longest of their delays counts.
    """
    return every_config(topic.description.configs for topic in image.topics.values())


@dataclass(frozen=True, slots=True)
class _Garbage:
    """Paths: `unused` shared segments, whose rows go, orphans, and unknown files; sizes by path."""

    unused: Sequence[str]
    orphans: Sequence[str]
    unknown: Sequence[str]
    sizes: Mapping[str, int]

    @property
    def doomed(self) -> list[str]:
        """The paths of the files that go."""
        return [*self.unused, *self.orphans]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the plan; [] if there is nothing to do or to report."""
        rows = []
        for what, paths in (
            ("unused shared segments", self.unused),
            ("orphan files", self.orphans),
            ("unknown files", self.unknown),
        ):
            if paths:
                size = sum(self.sizes.get(path, 0) for path in paths)
                rows.append(Sum(len(paths), size, paths[0]).as_row(what))
        return rows


def unused_segments(image: Image, horizon_ms: int, needed: Pinned) -> list[str]:
    """Return the shared segments whose file and row may go."""
    released_ms = needed.released_ms(max(config.delete_delay_ms for config in _configs(image)))
    # A row refuses new slices. After it is forgotten, the horizon refuses them instead.
    return [
        path
        for path, one in image.shared.items()
        if one.unused_ms is not None
        and one.unused_ms <= released_ms
        and (born_ms(path) or 0) < horizon_ms
    ]


def _garbage(image: Image, sizes: Mapping[str, int], horizon_ms: int, now_ms: int) -> _Garbage:
    """Return the findings about shared segments on an image; `sizes` are those of files."""
    born = {path: born_ms(path) for path in sizes if path not in image.shared}
    return _Garbage(
        sorted(unused_segments(image, horizon_ms, pinned(image, now_ms))),
        [path for path, ms in born.items() if ms is not None and ms < horizon_ms],
        [path for path, ms in born.items() if ms is None],
        sizes,
    )


def _execute(context: JobContext, planned: _Garbage) -> Outcome:
    sizes, births_ms = planned.sizes, [born_ms(path) or 0 for path in planned.doomed]
    try:
        image = commit_horizon(context, births_ms)
    except StorageFullError:
        # A segment whose row says that it is unused gets no slice any more: it makes room.
        delete_files(context, planned.unused, UNLINKING)
        image = commit_horizon(context, births_ms)
    garbage = _garbage(image, sizes, image.horizon_ms, context.clock.now_ms())
    doomed = garbage.doomed
    failed = delete_files(context, doomed, UNLINKING)
    forgotten = [path for path in garbage.unused if path not in failed]

    def forgetting(paths: Sequence[str], image: Image) -> Edit | Done:
        known = [path for path in paths if path in image.shared]
        parameters = {"shared_segments": str(len(known))}
        return Edit(operation=VACUUM, parameters=parameters, forget_shared=known)

    for part in rounds_of(forgotten):
        context.catalog.log.commit(partial(forgetting, part))
    gone = [sizes[path] for path in doomed if path in sizes and path not in failed]
    return Outcome(
        counts={
            "files": len(gone),
            "bytes": sum(gone),
            "segments": len(forgotten),
            "unknown_files": len(garbage.unknown),
        },
        problems=problems_of(failed),
    )
