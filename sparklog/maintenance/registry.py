"""Every job: its name, its work, how often it is due, and its own options.

A new job needs a row here, which the command line (`sparklog jobs`), the scheduler and its
configuration read. It also needs its name in `cli.jobs`, which must not load this list to know a
name, and a script in a checkout's `jobs/`; tests compare both.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sparklog.maintenance.abort_transactions import abort_transactions
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Job
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.retention import retention
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.maintenance.verification.verify import verify

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS


class JobOption(NamedTuple):
    """An option of one job: a switch; with a `metavar`, it takes a value and may be repeated."""

    about: str
    metavar: str | None = None

    @property
    def default(self) -> Any:
        """The value if the option is not given: False for a switch, else an empty list."""
        return False if self.metavar is None else []


class ScheduledJob(NamedTuple):
    """A job and its schedule: the default interval between two runs, and the key that sets it.

    `own`: the job's own options, by name. `takes_deleted`: deleted topics may be named, too.
    """

    name: str
    job: Job
    about: str
    interval_key: str
    interval_ms: int
    own: Mapping[str, JobOption] = {}
    takes_deleted: bool = False

    def options(self) -> dict[str, Any]:
        """Return the job's own options with their defaults, by name."""
        return {name: option.default for name, option in self.own.items()}


JOBS: Final[Mapping[str, ScheduledJob]] = {
    one.name: one
    for one in (
        ScheduledJob(
            "build_index",
            build_index,
            "Build indexes that are missing, damaged or left to this job.",
            "sparklog.build.index.interval.ms",
            _MINUTE_MS,
            {
                "list": JobOption("List the files: also build indexes that are missing or cut."),
                "check": JobOption("Read every log, and build indexes that are wrong."),
                "rebuild": JobOption("Build every index anew."),
            },
        ),
        ScheduledJob(
            "abort_transactions",
            abort_transactions,
            "Abort transactions that are open for longer than their timeouts.",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            10_000,
        ),
        ScheduledJob(
            "retention",
            retention,
            "Remove segments that are too old, too many or below the log start.",
            "log.retention.check.interval.ms",
            5 * _MINUTE_MS,
        ),
        ScheduledJob(
            "compact",
            compact,
            "Keep the latest record of each key of compacted topics.",
            "log.cleaner.backoff.ms",
            15_000,
            {
                "force": JobOption(
                    "Compact all records that are not compacted yet, whatever "
                    "min.cleanable.dirty.ratio says."
                ),
                "reindex": JobOption(
                    "Read the keys of clean segments instead of their key indexes, which may be "
                    "damaged, and write new key indexes."
                ),
            },
        ),
        ScheduledJob(
            "merge_segments",
            merge_segments,
            "Join small segments of each partition into sealed ones.",
            "sparklog.merge.segments.interval.ms",
            10 * _MINUTE_MS,
            {
                "seal": JobOption(
                    "Join and rewrite until every segment carries the log's own offsets."
                )
            },
        ),
        ScheduledJob(
            "build_table",
            build_table,
            "Copy records to the tables of topics with sparklog.table.enable.",
            "sparklog.build.table.interval.ms",
            _MINUTE_MS // 2,
            {"rebuild": JobOption("Empty the tables, and begin at the log start.")},
        ),
        ScheduledJob(
            "vacuum",
            vacuum,
            "Delete files that nothing needs any more, and what deleted topics have left.",
            "sparklog.vacuum.interval.ms",
            _HOUR_MS,
            {
                "drop_unknown": JobOption(
                    "Erase this directory of a topic that the metadata log does not know; "
                    "may be given several times.",
                    "DIRECTORY",
                )
            },
            takes_deleted=True,
        ),
        ScheduledJob(
            "verify",
            verify,
            "Check the metadata log, files, logs and indexes.",
            "sparklog.verify.interval.ms",
            7 * 24 * _HOUR_MS,
            {
                "repair": JobOption(
                    "Rebuild indexes; put damaged logs aside and go on with their sound batches; "
                    "close or enter transactions where the metadata are wrong about them."
                ),
                "records": JobOption("Also decode every record."),
                "table": JobOption("Also compare the tables of topics with their logs."),
            },
        ),
    )
}
"""The jobs by name, in the order in which they run when all are due.

Keys that Kafka has, too, have Kafka's default interval.
"""
