"""`sparklog jobs JOB …`: jobs whose work is done by Spark's tasks, and the scheduler.

The jobs and their options are those of `maintenance.registry`, which takes a second to load, and a
minute where the kernels must be compiled. The group looks them up when a job is named, listed or
completed; before it looks up a job that is to run, it looks whether Spark is there. NAMES has the
names without the registry, so that a name that is none is refused with or without Spark.
"""

from typing import Any, Final

import typer
from typer.core import TyperGroup

from sparklog.cli.arguments import HELP_OPTIONS
from sparklog.cli.extras import check_extra

ABOUT = """Run a job with Spark, or the scheduler, which runs jobs by the clock.

`sparklog jobs --help` lists them, `sparklog jobs JOB --help` has the options of one.
"""

NAMES: Final = (
    "abort_transactions",
    "build_index",
    "build_table",
    "compact",
    "erase",
    "import_log",
    "merge_segments",
    "retention",
    "scheduler",
    "vacuum",
    "verify",
)


class JobsGroup(TyperGroup):
    """The commands of `job_commands`, loaded at the first use. A name may have `-` for `_`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all jobs, sorted."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a job; None for a name that is none."""
        self._load()
        return super().get_command(ctx, _name(cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and arguments of a job. Raises UsageError if Spark is missing."""
        is_run = not ctx.resilient_parsing and not set(args) & set(ctx.help_option_names)
        if is_run and _name(args[0]) in NAMES:
            check_extra("spark", "pyspark")
        return super().resolve_command(ctx, args)

    def _load(self) -> None:
        if not self.commands:
            from sparklog.cli.job_commands import job_commands

            self.commands = typer.main.get_group(job_commands()).commands


def _name(told: str) -> str:
    return told.replace("-", "_")


def add_to(app: typer.Typer) -> None:
    """Register `jobs`."""
    jobs = typer.Typer(
        cls=JobsGroup,
        help=ABOUT,
        subcommand_metavar="JOB [OPTIONS]",
        context_settings=HELP_OPTIONS,
    )
    app.add_typer(jobs, name="jobs")
