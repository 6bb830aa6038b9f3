"""Runs a job: step by step, with a report of each, and an exit code at the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from sparklog.errors import (
    CommitConflictError,
    LateWriterError,
    SparklogError,
    TopicClosedError,
)
from sparklog.garbage import seldom_collected
from sparklog.maintenance.job import Job, JobContext, Outcome, Step
from sparklog.maintenance.leases import Leases
from sparklog.metadata.state.edit import Lease

DONE: Final = 0
FAILED: Final = 1
NOTHING_TO_DO: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """The report of a step: `rows` is its plan, `outcome` None in a dry run."""

    job: str
    topic: str
    rows: Sequence[Mapping[str, Any]]
    outcome: Outcome | None = None
    duration_ms: int = 0

    @property
    def is_failed(self) -> bool:
        """Whether the outcome has problems."""
        return self.outcome is not None and bool(self.outcome.problems)

    def as_row(self) -> dict[str, Any]:
        """Return the JSON object to print: the plan in a dry run, else the counts."""
        row: dict[str, Any] = {"job": self.job, "topic": self.topic}
        if self.outcome is None:
            return {**row, "dry_run": True, "plan": list(self.rows)}
        return {
            **row,
            **self.outcome.counts,
            "problems": list(self.outcome.problems),
            **({"notes": list(self.outcome.notes)} if self.outcome.notes else {}),
            "duration_ms": self.duration_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of a job over the named topics, or over all if none is named.

    With `leases` each step runs under a lease. If another owner holds the lease, the step is
    skipped and reported, which is no failure.
    """

    name: str
    job: Job
    topics: Sequence[str] = ()
    options: Mapping[str, Any]
    dry_run: bool = False
    leases: Leases | None = None

    def run(self, context: JobContext, report: Callable[[StepReport], None]) -> int:
        """Execute and report every step; return DONE, FAILED or NOTHING_TO_DO.

        After a step that fails, the next step is executed. Raises the errors of planning.
        """
        code = NOTHING_TO_DO
        with seldom_collected():
            for one in self._reports(context):
                report(one)
                code = FAILED if one.is_failed or code == FAILED else DONE
        return code

    def _reports(self, context: JobContext) -> Iterator[StepReport]:
        for step in self.job(context, self.topics, self.options):
            planned = StepReport(job=self.name, topic=step.topic, rows=step.rows)
            if self.dry_run:
                yield planned
                continue
            started_ms = context.clock.boot_ms()
            outcome = executed(step) if self.leases is None else alone(self.name, step, self.leases)
            duration_ms = context.clock.boot_ms() - started_ms
            yield replace(planned, outcome=outcome, duration_ms=duration_ms)


def alone(job: str, step: Step, leases: Leases) -> Outcome:
    """Execute a step of a job under its lease; skip it if another process holds that."""
    with leases.held(job, step.topic) as other:
        return executed(step) if other is None else skipped(other)


def skipped(lease: Lease) -> Outcome:
    """Return the outcome of a step that was skipped: another process holds its lease."""
    until = datetime.fromtimestamp(lease.expires_ms / 1000, UTC).isoformat(timespec="seconds")
    return Outcome(counts={"skipped": 1}, notes=[f"held by {lease.owner} until {until}"])


def executed(step: Step) -> Outcome:
    """Execute a step; a SparklogError becomes a problem of its outcome.

    A conflict is not a problem: either another job was faster, and the next run does the rest, or
    the topic is being deleted. It is no problem either if a step took so long that vacuum may have
    deleted its files: nothing was committed, and the next run executes the step again.
    """
    try:
        return step.execute()
    except (CommitConflictError, TopicClosedError):
        return Outcome(counts={"conflicts": 1})
    except LateWriterError as error:
        return Outcome(counts={"conflicts": 1}, notes=[str(error)])
    except SparklogError as error:
        return Outcome(problems=[str(error)])
