"""`sparklog jobs JOB …`: jobs whose work is done by Spark's tasks, and the scheduler.

The jobs and their options are those of `maintenance.registry`, which takes a second to load: they
are looked up when the command runs.
"""

from typing import Final

import typer

from sparklog.cli.arguments import add_lazily, run_within
from sparklog.errors import InvalidOptionError

HELP: Final = ("--help", "-h")


def jobs(context: typer.Context) -> None:
    """Run a job with Spark, or the scheduler, which runs jobs by the clock.

    `sparklog jobs --help` lists them, `sparklog jobs JOB --help` has the options of one.
    """
    from sparklog.cli.job_commands import job_commands

    commands = job_commands()
    given = list(context.args)
    if not given or given[0] not in HELP:
        names = [str(one.name) for one in commands.registered_commands]
        name = given.pop(0).replace("-", "_") if given else ""
        if name not in names:
            what = f"no job {name!r}" if name else "no job: give its name"
            raise InvalidOptionError(f"{what}; there are {', '.join(names)}", option="job")
        given = [name, *given]
    run_within(context, commands, given)


def add_to(app: typer.Typer) -> None:
    """Register `jobs`."""
    add_lazily(app, "jobs", jobs, "JOB [OPTIONS]")
