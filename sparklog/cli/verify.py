"""`sparklog verify`: the job of that name in this process, without a JVM."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sparklog.cli.arguments import CommonArguments
from sparklog.cli.completion import TopicsArgument
from sparklog.cli.output import print_json

if TYPE_CHECKING:
    from sparklog.maintenance.runner import StepReport


@dataclass(frozen=True, kw_only=True)
class VerifyArguments(CommonArguments):
    """Options of `verify`."""

    names: TopicsArgument = None
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="T", help="A topic; may be repeated."),
    ] = None
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Rebuild indexes; move damaged logs aside, keep sound batches; close or enter "
            "transactions where the metadata are wrong about them.",
        ),
    ] = False
    records: Annotated[bool, typer.Option("--records", help="Decode every record, too.")] = False
    table: Annotated[
        bool, typer.Option("--table", help="Compare the tables of topics with their logs.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many files and bytes would be read.")
    ] = False


def verify(arguments: VerifyArguments) -> None:
    """Check the metadata log, files, logs and indexes; exit 1 when something is wrong."""
    from sparklog.fleet import LocalFleet
    from sparklog.maintenance.job import JobContext
    from sparklog.maintenance.runner import FAILED, JobRun
    from sparklog.maintenance.verification.verify import verify as job

    run = JobRun(
        name="verify",
        job=job,
        topics=[*(arguments.names or ()), *(arguments.topic or ())],
        options={
            "repair": arguments.repair,
            "records": arguments.records,
            "table": arguments.table,
        },
        dry_run=arguments.dry_run,
    )
    context = JobContext(arguments.catalog(), LocalFleet())
    if run.run(context, lambda report: _print(arguments, report)) == FAILED:
        raise typer.Exit(FAILED)


def _print(arguments: CommonArguments, report: "StepReport") -> None:
    if arguments.is_json:
        print_json(report.as_row())
        return
    if report.outcome is None:
        for row in report.rows:
            cells = (value if name == "what" else f"{name} {value}" for name, value in row.items())
            print(f"{report.topic}: {', '.join(cells)}")
        return
    for line in () if arguments.quiet else report.outcome.notes:
        print(line)
    for line in report.outcome.problems:
        print(line)
    if not arguments.quiet:
        counts = ", ".join(f"{name} {count:,}" for name, count in report.outcome.counts.items())
        state = "damaged" if report.is_failed else "sound"
        print(f"{report.topic}: {state} ({counts or 'not read'})")
