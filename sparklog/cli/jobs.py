"""`sparklog jobs JOB …`: a scheduled job as a process of its own, for it may start a JVM.

What stands behind the job's name is handed on as it is, what stands before `jobs` in front of it;
the exit code is the job's.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from sparklog.errors import InvalidOptionError

JOBS: Final = (
    "build_index",
    "compact",
    "import_log",
    "merge_segments",
    "retention",
    "scheduler",
    "vacuum",
    "verify",
)


def jobs(context: typer.Context) -> None:
    """Run a job: build_index, compact, import_log, merge_segments, retention, vacuum or verify.

    Or the scheduler, which runs all but import_log. `sparklog jobs JOB --help` has the options.
    """
    given = [*context.args]
    if given[:1] in (["--help"], ["-h"]):
        print(context.get_help())
        return
    name = given.pop(0).replace("-", "_") if given else ""
    if name not in JOBS:
        what = f"no job {name!r}" if name else "no job: give its name"
        raise InvalidOptionError(f"{what}; there are {', '.join(JOBS)}", option="job")
    module = f"sparklog.spark.jobs.{name}"
    before = _common(context.find_root().params)
    sys.stdout.flush()
    code = run_process([sys.executable, "-m", module, *before, *given])
    raise typer.Exit(code)


def run_process(command: Sequence[str]) -> int:
    """Run a process to its end, and return its exit code as a shell tells it.

    Ctrl-C reaches it too: it decides what to finish.
    """
    process = subprocess.Popen(command)
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue
        return code if code >= 0 else 128 - code


def _common(given: Mapping[str, Any]) -> list[str]:
    """The options before `jobs`, as a job spells them."""
    options = ["--log-dir", given["log_dir"]] if given["log_dir"] else []
    for setting in given["storage"] or ():
        options += ["-S", setting]
    if given["output"]:
        options += ["--format", str(given["output"])]
    return [*options, "--quiet"] if given["quiet"] else options


def add_to(app: typer.Typer) -> None:
    """Register `jobs`, whose options are the job's own."""
    settings = {
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    }
    app.command("jobs", context_settings=settings, options_metavar="JOB [OPTIONS]")(jobs)
