"""The commands of `sparklog jobs`: each job of the registry, import, erase, and the scheduler.

exit code 0   done, or in a dry run: there is something to do
exit code 1   a part of it failed: the report, or one line on stderr, says what and where
exit code 2   wrong usage
exit code 3   nothing to do

On a terminal they print tables, elsewhere one JSON object a line for each topic; --format chooses.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import partial
from typing import Annotated, Any, Final

import typer

from sparklog.cli import scheduler
from sparklog.cli.arguments import (
    CommonArguments,
    OutputFormat,
    add_command,
    add_command_of,
)
from sparklog.cli.erase import EraseArguments, erase_on
from sparklog.cli.extras import extra
from sparklog.cli.output import print_json, print_table
from sparklog.cli.transfer.import_log import ImportArguments, import_on
from sparklog.fleet import Fleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.leases import Leases
from sparklog.maintenance.registry import JOBS, ScheduledJob
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO, JobRun, StepReport

IMPORT = "import_log"
ERASE = "erase"


@dataclass(frozen=True, kw_only=True)
class JobArguments(CommonArguments):
    """Options that every job takes."""

    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="T", help="A topic; may be repeated; all if none is named."
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")] = (
        False
    )


def job_commands() -> typer.Typer:
    """Return the commands, in the order of their names."""
    app = typer.Typer(rich_markup_mode=None)
    for name in sorted([*JOBS, *WITH_SPARK]):
        if name in WITH_SPARK:
            add_command(app, name, WITH_SPARK[name])
        else:
            job = JOBS[name]
            add_command_of(app, name, partial(run_job, job), arguments_of(job), job.about)
    scheduler.add_to(app)
    return app


def arguments_of(job: ScheduledJob) -> type[JobArguments]:
    """Return the options of a job: those of every job, and its own."""
    own: list[tuple[str, Any, Any]] = []
    for name, option in job.own.items():
        told = f"--{name.replace('_', '-')}"
        info = typer.Option(told, metavar=option.metavar, help=option.about)
        kind: Any = bool if option.metavar is None else list[str] | None
        default = False if option.metavar is None else None
        own.append((name, Annotated[kind, info], field(default=default)))
    return make_dataclass(job.name, own, bases=(JobArguments,), frozen=True, kw_only=True)


def run_job(job: ScheduledJob, arguments: JobArguments) -> None:
    """Run a job, print a report of each step, and leave with its exit code."""
    context = JobContext(arguments.catalog(), spark_fleet(job.name, arguments))
    run = JobRun(
        name=job.name,
        job=job.job,
        topics=arguments.topic or (),
        dry_run=arguments.dry_run,
        options={name: getattr(arguments, name) or one.default for name, one in job.own.items()},
        leases=Leases(context),
    )
    shown = with_format(arguments)
    code = run.run(context, print_report_json if shown.is_json else print_report)
    if code == NOTHING_TO_DO and not shown.is_json:
        print(f"{job.name}: nothing to do")
    raise typer.Exit(code)


def import_with_spark(arguments: ImportArguments) -> None:
    """Run `sparklog import` with Spark's tasks, which import the partitions.

    The broker's directory and the log dir must have the same paths on the driver and all executors.
    """
    import_on(spark_fleet(IMPORT, arguments), with_format(arguments))


def erase_with_spark(arguments: EraseArguments) -> None:
    """Run `sparklog erase` with Spark's tasks, which search and rewrite the segments and files."""
    report = erase_on(spark_fleet(ERASE, arguments), with_format(arguments))
    raise typer.Exit(NOTHING_TO_DO if report.is_empty else DONE)


WITH_SPARK: Final[Mapping[str, Callable[[Any], None]]] = {
    IMPORT: import_with_spark,
    ERASE: erase_with_spark,
}
"""Jobs that are commands of their own, too, and not on the schedule."""


def spark_fleet(name: str, arguments: CommonArguments) -> Fleet:
    """Return the fleet of Spark's tasks; the first task starts the session."""
    with extra("spark"):
        from sparklog.spark.jobs.fleet import SparkFleet
        from sparklog.spark.session import session

    # Our own progress bar takes the place of Spark's.
    conf = {"spark.ui.showConsoleProgress": "false"}
    return SparkFleet(lambda: session(f"sparklog {name}", **conf), is_quiet=arguments.quiet)


def with_format(arguments: Any) -> Any:
    """Return the options with a format: that of --format, else text on a terminal, else json."""
    default = OutputFormat.TEXT if sys.stdout.isatty() else OutputFormat.JSON
    return replace(arguments, output=arguments.output or default)


def print_report_json(report: StepReport) -> None:
    """Print one JSON object on a line of its own."""
    print_json(report.as_row())
    sys.stdout.flush()  # the next step may take an hour


def print_report(report: StepReport) -> None:
    """Print a table of the plan in a dry run, else the counts, and the problems."""
    if report.outcome is None:
        _print_rows(f"{report.job} {report.topic}: would do", report.rows)
        return
    done = ", ".join(f"{name} {count:,}" for name, count in report.outcome.counts.items())
    seconds = report.duration_ms / 1000
    print(f"{report.job} {report.topic}: {done or 'done'} ({seconds:.1f} s)")
    for line in (*report.outcome.notes, *report.outcome.problems):
        print(f"  {line}")
    sys.stdout.flush()


def _print_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of a plan, which may have different columns."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    print_table(title, columns, [[row.get(name) for name in columns] for row in rows])
