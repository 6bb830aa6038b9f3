"""Vacuum for gateways: the steps of the job that are overdue, of the topics that a gateway leads.

A gateway makes a shared segment a second, and its merges remove segments all the time. If no
scheduler runs `vacuum`, their rows and files would become more for ever. So a gateway executes the
job's own steps where one of these is true:

    MANY rows may be dropped
    a row might have been dropped LATE_MS ago: the job does not run

Deleted topics, and files outside topics and shared segments, are left to the job.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from sparklog.log.names import SHARED
from sparklog.maintenance.job import JobContext, Step, tried
from sparklog.maintenance.vacuuming.vacuum_log_dir import LogDirFiles
from sparklog.maintenance.vacuuming.vacuum_shared import horizon_of, shared_steps, unused_segments
from sparklog.maintenance.vacuuming.vacuum_topic import UnneededRows, topic_steps
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.plans.backups import Pinned, pinned
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import TopicDescription

VACUUM_JOB: Final = "vacuum"
"""The name of the job, whose leases the steps need: no step is executed twice at the same time."""
MANY: Final = 1_000
"""So many rows are worth the four entries of a step: two of its lease, its horizon, its rows."""
LATE_MS: Final = 6 * 3_600_000
"""The scheduler vacuums every hour by default."""


def overdue_steps(
    context: JobContext, image: Image, topics: Iterable[TopicDescription], *, shared: bool
) -> Iterator[Step]:
    """Yield the overdue steps of topics, and with `shared` that of shared segments.

    Topics that the image has not opened are left out.
    """
    for topic in topics:
        yield from tried(topic.name, _topic_steps(context, image, topic))
    if shared:
        yield from tried(SHARED, _shared_steps(context, image))


def _topic_steps(context: JobContext, image: Image, topic: TopicDescription) -> Iterator[Step]:
    opened, needed = image.topic(topic.topic_id), pinned(image, context.clock.now_ms())
    if opened is not None and opened.is_open and _is_overdue(partial(_rows_of, opened), needed):
        files = context.files.list(topic_directory(topic), recursive=True)
        yield from topic_steps(context, topic, files)


def _shared_steps(context: JobContext, image: Image) -> Iterator[Step]:
    if _is_overdue(partial(_shared_rows_of, image), pinned(image, context.clock.now_ms())):
        found = LogDirFiles(image)
        found.add(SHARED, context.files.list(SHARED, recursive=True))  # page by page
        yield from shared_steps(context, context.catalog.image(), found.shared)


def _is_overdue(rows_at: Callable[[Pinned], int], needed: Pinned) -> bool:
    """Return whether a step is overdue; `rows_at` tells how many rows may go at a time."""
    earlier = needed._replace(now_ms=needed.now_ms - LATE_MS)
    return rows_at(needed) >= MANY or rows_at(earlier) > 0


def _rows_of(topic: TopicImage, needed: Pinned) -> int:
    return sum(UnneededRows.of(topic, needed))


def _shared_rows_of(image: Image, needed: Pinned) -> int:
    return len(unused_segments(image, horizon_of(image, needed.now_ms), needed))
