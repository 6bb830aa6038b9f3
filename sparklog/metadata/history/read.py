"""The history: past commits, and the numbers of every partition as of each known commit.

history, record_at    commits: of history runs, and of entries behind the newest fold
version_at            the version of a time
cut_at                all partitions' numbers as of a version: the newest cut before it
                      (`files`), with the edits since then applied by `Image.apply`
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sparklog.errors import (
    CorruptMetadataError,
    MissingFileError,
    OffsetOutOfRangeError,
    VersionOutOfRangeError,
)
from sparklog.metadata.follow import FollowedLog
from sparklog.metadata.history.files import (
    HistoryRecord,
    cuts_of,
    history_runs_of,
    records,
    rows_of_run,
    unfolded_entry,
)
from sparklog.metadata.state.edit import NOTHING, FoldEdit
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.model import TopicDescription
from sparklog.record.arrays import numbers_of


class PartitionCut(NamedTuple):
    """A partition's numbers as of one version."""

    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    cleaner_offset: int

    @classmethod
    def of(cls, log: PartitionLog) -> "PartitionCut":
        """Return the numbers of a log as of its image."""
        return cls(
            log.log_start_offset, log.last_stable_offset, log.log_end_offset, log.cleaner_offset
        )


@dataclass(frozen=True, slots=True)
class TopicCut:
    """A topic as of one version: its description, and the partitions that were written to."""

    description: TopicDescription
    partitions: Mapping[int, PartitionCut]


@dataclass(frozen=True, slots=True)
class Cut:
    """All topics as one commit left them, by topic id."""

    version: int
    topics: Mapping[str, TopicCut]


# ------------------------------------------------------------------------------------------- read


def history(
    log: FollowedLog,
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    limit: int | None = None,
    newest_first: bool = True,
) -> Iterator[HistoryRecord]:
    """Return the known commits from one version to another, both included.

    Raises CorruptMetadataError, which names the damaged file.
    """
    image = log.image()
    first = max(from_version or 0, oldest_version(image))
    last = image.version if to_version is None else min(to_version, image.version)
    found = _however_slow(log, image.fold, first, last, newest_first=newest_first)
    return found if limit is None else (one for one, _ in zip(found, range(limit), strict=False))


def _however_slow(
    log: FollowedLog, fold: FoldEdit, first: int, last: int, *, newest_first: bool
) -> Iterator[HistoryRecord]:
    """Yield commits; go on in a newer fold where the files of this one were cleaned meanwhile.

    A caller may take minutes between two commits, such as a pager that nobody scrolls.
    """
    while True:
        try:
            for record in records(log, fold, first, last, newest_first=newest_first):
                if newest_first:
                    last = record.version - 1
                else:
                    first = record.version + 1
                yield record
        except (CorruptMetadataError, MissingFileError):
            newer = log.image().fold
            if newer.cover == fold.cover:
                raise
            fold = newer
        else:
            return


def oldest_version(image: Image) -> int:
    """Return the oldest version that the history holds."""
    past = history_runs_of(image.fold)
    return past[0].from_version if past else image.fold.cover + 1


def record_at(log: FollowedLog, version: int) -> HistoryRecord:
    """Return the commit of one version. Raises VersionOutOfRangeError."""
    image = log.image()
    _check_known(image, version, oldest_version(image))
    return next(records(log, image.fold, version, version))


def version_at(log: FollowedLog, timestamp_ms: int) -> int:
    """Return the newest version whose time is not after `timestamp_ms`.

    Raises VersionOutOfRangeError if the history begins later.
    """
    image = log.image()
    if timestamp_ms >= image.stamp.timestamp_ms:
        return image.version
    low, high = image.fold.cover, image.version  # the version is at or below `low`, or between
    while low + 1 < high:
        middle = (low + high) // 2
        is_later = unfolded_entry(log, image.fold, middle).timestamp_ms > timestamp_ms
        low, high = (low, middle) if is_later else (middle, high)
    if low > image.fold.cover:
        return low
    for run in reversed(history_runs_of(image.fold)):
        rows = rows_of_run(log.files, run, ["version", "timestamp_ms"])
        at = int(np.searchsorted(numbers_of(rows.column("timestamp_ms")), timestamp_ms, "right"))
        if at:
            return int(rows.column("version")[at - 1].as_py())
    oldest = record_at(log, oldest_version(image))
    raise VersionOutOfRangeError(
        f"no version is known as of {timestamp_ms} (ms): the oldest one, {oldest.version}, is of "
        f"{oldest.timestamp_ms} (ms)"
    )


def oldest_cut(image: Image) -> int:
    """Return the oldest version that `cut_at` knows."""
    if not oldest_version(image):
        return 0
    cuts = [cut.to_version for cut in cuts_of(image.fold)]
    return min(cuts, default=image.fold.cover)


def cut_at(log: FollowedLog, version: int) -> Cut:
    """Return the numbers of all topics that existed as of a version.

    Raises VersionOutOfRangeError.
    """
    image = log.image()
    _check_known(image, version, oldest_cut(image))
    past = _base(log, image, version)
    if past.topics:
        past = past.with_topics(log.runs.opened(past.fold, past.topics))
    for record in records(log, image.fold, past.version + 1, version):
        # A cut has no transactional ids, so none whose transaction could grow.
        edits = [replace(edit, added_to_transactions=NOTHING) for edit in record.edits]
        past = past.apply(edits, record.stamp)
    found = {}
    for topic_id, topic in past.topics.items():
        logs = sorted(topic.partitions.items())
        numbers = {number: PartitionCut.of(log) for number, log in logs}
        found[topic_id] = TopicCut(topic.description, numbers)
    return Cut(version, found)


def check_readable(cut: PartitionCut, log: PartitionLog, version: int) -> None:
    """Raise OffsetOutOfRangeError unless today's segments still hold the records of a version."""
    for name, then, now in (
        ("log start offset", cut.log_start_offset, log.log_start_offset),
        ("cleaner offset", cut.cleaner_offset, log.cleaner_offset),
    ):
        if now > then:
            raise OffsetOutOfRangeError(
                f"{log.name}: version {version} cannot be read any more: its {name} was {then}, "
                f"and is {now} now",
                partition=log.partition,
            )


def _base(log: FollowedLog, image: Image, version: int) -> Image:
    """Return the newest cut at or before a version as an image; without a cut, the empty image.

    If the history does not begin with version 0 either, it is the newest fold's image.
    """
    cuts = [cut for cut in cuts_of(image.fold) if cut.to_version <= version]
    if cuts:
        return log.runs.image(FoldEdit(cuts[-1].to_version, -1, (cuts[-1],)))
    if not oldest_version(image):
        return Image()
    return log.runs.image(image.fold)


def _check_known(image: Image, version: int, oldest: int) -> None:
    if not oldest <= version <= image.version:
        raise VersionOutOfRangeError(
            f"version {version} of the metadata log is not known: allowed are {oldest} to "
            f"{image.version}"
        )
