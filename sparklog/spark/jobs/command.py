"""A job's command line: `spark-submit jobs/<job>.py`, `python -m sparklog.spark.jobs.<job>`.

exit code 0   done, or in a dry run: there is something to do
exit code 1   a part of it failed: the report, or one line on stderr, says what and where
exit code 2   misuse
exit code 3   nothing to do

On a terminal a table for people, elsewhere one JSON object a line and topic.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from sparklog.config.pairs import pairs
from sparklog.errors import InvalidOptionError, SparklogError
from sparklog.maintenance.job import Job, JobContext
from sparklog.maintenance.leases import Leases
from sparklog.maintenance.runner import FAILED, NOTHING_TO_DO, JobRun, StepReport
from sparklog.metadata.catalog import Catalog
from sparklog.spark.jobs.fleet import SparkFleet
from sparklog.spark.session import session
from sparklog.storage import open_files

MISUSE = 2


def run_job(
    name: str,
    job: Job,
    about: str,
    arguments: Sequence[str] | None = None,
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _: None,
) -> int:
    """Run a job as its command line says, and return the exit code.

    `add_options` adds the job's own options; they reach the job by their `dest`.
    """
    given = vars(_parser(name, about, add_options).parse_args(arguments))
    return ended(name, lambda: _run(name, job, given))


def _run(name: str, job: Job, given: dict[str, Any]) -> int:
    files = open_files(given.pop("log_dir"), storage_settings(given.pop("storage")))
    context = JobContext(Catalog(files), spark_fleet(name, is_quiet=given.pop("quiet")))
    output = output_format(given.pop("format"))
    run = JobRun(
        name=name,
        job=job,
        topics=given.pop("topic"),
        dry_run=given.pop("dry_run"),
        options=given,
        leases=Leases(context),
    )
    code = run.run(context, PRINTERS[output])
    if code == NOTHING_TO_DO and output == "text":
        print(f"{name}: nothing to do")
    return code


def spark_fleet(name: str, *, is_quiet: bool) -> SparkFleet:
    """Return Spark's tasks for a command; the session is started with the first of them."""
    # Our own progress bar takes the place of Spark's.
    conf = {"spark.ui.showConsoleProgress": "false"}
    return SparkFleet(lambda: session(f"sparklog {name}", **conf), is_quiet=is_quiet)


def output_format(given: str | None) -> str:
    """Return what `--format` gives, else text on a terminal and json elsewhere."""
    return given or ("text" if sys.stdout.isatty() else "json")


def ended(name: str, command: Callable[[], int]) -> int:
    """Run a command, and return its exit code; an error of sparklog's own is a line on stderr."""
    try:
        return command()
    except SparklogError as error:
        line = " ".join(str(error).split("\n"))
        print(f"sparklog {name}: error: {line}", file=sys.stderr)
        return MISUSE if isinstance(error, InvalidOptionError) else FAILED


def _parser(
    name: str, about: str, add_options: Callable[[argparse.ArgumentParser], None]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"sparklog jobs {name}", description=about)
    add_common_options(parser)
    parser.add_argument(
        "--topic", metavar="T", action="append", default=[], help="A topic; again for more."
    )
    parser.add_argument("--dry-run", action="store_true", help="Show the plan, change nothing.")
    add_options(parser)
    return parser


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command here takes."""
    parser.add_argument(
        "--log-dir",
        metavar="DIR",
        default=os.environ.get("SPARKLOG_LOG_DIR"),
        required="SPARKLOG_LOG_DIR" not in os.environ,
        help="The log dir: a path, file://, s3://, gs:// or az:// (or SPARKLOG_LOG_DIR).",
    )
    parser.add_argument("--format", choices=sorted(PRINTERS), help="What the report looks like.")
    parser.add_argument("--quiet", "-q", action="store_true", help="No progress bar.")
    parser.add_argument(
        "-S",
        "--storage",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="A storage setting, such as AWS_ENDPOINT_URL; better kept in the environment.",
    )


def storage_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return what `-S/--storage` gives. Raises InvalidOptionError, which shows no setting."""
    return pairs(texts, "-S/--storage", is_secret=True)


def print_json(report: StepReport) -> None:
    """One JSON object on a line of its own."""
    _print_line(report.as_row())


def print_rows(title: str, rows: Sequence[Mapping[str, Any]], output: str) -> None:
    """A JSON object a line, or a table with a title if there are rows."""
    if output == "json":
        for row in rows:
            _print_line(row)
    elif rows:
        Console().print(_table(title, rows))


def warn(name: str, message: str) -> None:
    """Print a line on stderr that is no error."""
    print(f"sparklog {name}: warning: {message}", file=sys.stderr)


def _print_line(row: Mapping[str, Any]) -> None:
    print(json.dumps(row, ensure_ascii=False, separators=(",", ":")), flush=True)


def print_text(report: StepReport) -> None:
    """A table of the plan in a dry run, else what was done, and the problems."""
    console = Console()
    if report.outcome is None:
        console.print(_table(f"{report.job} {report.topic}: would do", report.rows))
        return
    done = ", ".join(f"{name} {count:,}" for name, count in report.outcome.counts.items())
    seconds = report.duration_ms / 1000
    console.print(f"{report.job} {report.topic}: {done or 'done'} ({seconds:.1f} s)")
    for note in report.outcome.notes:
        console.print(f"  {note}", markup=False)
    for problem in report.outcome.problems:
        console.print(f"  {problem}", style="red", markup=False)


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int) else "left")
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row.values()))
    return table


PRINTERS: Mapping[str, Callable[[StepReport], None]] = {"json": print_json, "text": print_text}
