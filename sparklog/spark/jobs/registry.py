"""Every job that can be scheduled: what it is called, what it does, how often, with what options.

Adding a job is a row here; the scheduler reads no other list.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.compact import compact
from sparklog.maintenance.job import Job
from sparklog.maintenance.merge_segments import merge_segments
from sparklog.maintenance.retention import retention
from sparklog.maintenance.vacuum import vacuum
from sparklog.maintenance.verify import verify
from sparklog.spark.jobs import build_index as build_index_entry
from sparklog.spark.jobs import compact as compact_entry
from sparklog.spark.jobs import merge_segments as merge_segments_entry
from sparklog.spark.jobs import retention as retention_entry
from sparklog.spark.jobs import vacuum as vacuum_entry
from sparklog.spark.jobs import verify as verify_entry

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS


def no_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: for a job that takes no options of its own."""
    del parser


class ScheduledJob(NamedTuple):
    """A job and its schedule: the time between two runs, by the key that sets it.

    `takes_deleted`: a name given to it may be that of a deleted topic.
    """

    name: str
    job: Job
    about: str
    interval_key: str
    interval_ms: int
    add_options: Callable[[argparse.ArgumentParser], None] = no_options
    takes_deleted: bool = False

    def options(self) -> dict[str, Any]:
        """Return the job's own options with their defaults, by name."""
        parser = argparse.ArgumentParser()
        self.add_options(parser)
        return vars(parser.parse_args([]))


JOBS: Final[Mapping[str, ScheduledJob]] = {
    one.name: one
    for one in (
        ScheduledJob(
            "build_index",
            build_index,
            build_index_entry.ABOUT,
            "sparklog.build.index.interval.ms",
            _MINUTE_MS,
            build_index_entry.add_options,
        ),
        ScheduledJob(
            "retention",
            retention,
            retention_entry.ABOUT,
            "log.retention.check.interval.ms",
            5 * _MINUTE_MS,
        ),
        ScheduledJob(
            "compact",
            compact,
            compact_entry.ABOUT,
            "log.cleaner.backoff.ms",
            15_000,
            compact_entry.add_options,
        ),
        ScheduledJob(
            "merge_segments",
            merge_segments,
            merge_segments_entry.ABOUT,
            "sparklog.merge.segments.interval.ms",
            10 * _MINUTE_MS,
            merge_segments_entry.add_options,
        ),
        ScheduledJob(
            "vacuum",
            vacuum,
            vacuum_entry.ABOUT,
            "sparklog.vacuum.interval.ms",
            _HOUR_MS,
            vacuum_entry.add_options,
            takes_deleted=True,
        ),
        ScheduledJob(
            "verify",
            verify,
            verify_entry.ABOUT,
            "sparklog.verify.interval.ms",
            7 * 24 * _HOUR_MS,
            verify_entry.add_options,
        ),
    )
}
"""The jobs by name, in the order in which they run when all are due. Intervals are Kafka's."""
