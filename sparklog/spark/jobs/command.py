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

from sparklog.errors import InvalidOptionError, SparklogError
from sparklog.maintenance.job import Job, JobContext
from sparklog.maintenance.leases import Leases
from sparklog.maintenance.runner import FAILED, JobRun, StepReport
from sparklog.manifest.catalog import Catalog
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
    try:
        storage = storage_settings(given.pop("storage"))
        files = open_files(given.pop("log_dir"), storage)
        is_quiet = given.pop("quiet")
        # Our own progress bar takes the place of Spark's.
        conf = {"spark.ui.showConsoleProgress": "false"}
        fleet = SparkFleet(lambda: session(f"sparklog {name}", **conf), is_quiet=is_quiet)
        output = given.pop("format") or ("text" if sys.stdout.isatty() else "json")
        context = JobContext(Catalog(files), fleet)
        run = JobRun(
            name=name,
            job=job,
            topics=given.pop("topic"),
            dry_run=given.pop("dry_run"),
            options=given,
            leases=Leases(context),
        )
        return run.run(context, PRINTERS[output])
    except SparklogError as error:
        line = " ".join(str(error).split("\n"))
        print(f"sparklog {name}: error: {line}", file=sys.stderr)
        return MISUSE if isinstance(error, InvalidOptionError) else FAILED


def _parser(
    name: str, about: str, add_options: Callable[[argparse.ArgumentParser], None]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"sparklog jobs {name}", description=about)
    parser.add_argument(
        "--log-dir",
        metavar="DIR",
        default=os.environ.get("SPARKLOG_LOG_DIR"),
        required="SPARKLOG_LOG_DIR" not in os.environ,
        help="The log dir: a path, file:// or s3:// (or SPARKLOG_LOG_DIR).",
    )
    parser.add_argument(
        "--topic", metavar="T", action="append", default=[], help="A topic; again for more."
    )
    parser.add_argument("--dry-run", action="store_true", help="Show the plan, change nothing.")
    parser.add_argument("--format", choices=sorted(PRINTERS), help="What the report looks like.")
    parser.add_argument("--quiet", action="store_true", help="No progress bar.")
    parser.add_argument(
        "-S",
        "--storage",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="A storage setting, such as AWS_ENDPOINT_URL; better kept in the environment.",
    )
    add_options(parser)
    return parser


def storage_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return the settings that `-S NAME=VALUE` gives. Raises InvalidOptionError."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidOptionError("-S/--storage: allowed is NAME=VALUE", option="storage")
        found[name] = value
    return found


def print_json(report: StepReport) -> None:
    """One JSON object on a line of its own."""
    print(json.dumps(report.as_row(), separators=(",", ":")), flush=True)


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
