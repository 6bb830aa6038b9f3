"""All commands, and their exit codes.

exit code 0   done; also when the reader of a pipe closes it
exit code 1   the operation failed: one line on stderr names the reason
exit code 2   wrong usage: an option is unknown, missing, or has an invalid value
exit code 130 interrupted

`--debug` shows the traceback as well.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

import sparklog
from sparklog.cli import (
    checkpoint,
    consume,
    dump_log,
    erase,
    export_log,
    groups,
    import_log,
    jobs,
    log,
    offsets,
    produce,
    restore,
    services,
    topic,
    transactions,
    users,
    verify,
)
from sparklog.cli.arguments import HELP_OPTIONS, CommonArguments
from sparklog.cli.output import warn
from sparklog.errors import InvalidOptionError, SparklogError, SparklogWarning

NAME = "sparklog"
FAILURE = 1
MISUSE = 2


class RootGroup(TyperGroup):
    """The commands. When the reader of stdout closes its pipe, they end without an error."""

    def invoke(self, ctx: Any) -> Any:
        """Show the version, or run the named command."""
        if ctx.params["version"]:
            print(f"{NAME} {sparklog.__version__}")
            raise typer.Exit(0)
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _close_stdout()
            raise typer.Exit(0) from None
        return answer


def run(arguments: Sequence[str]) -> int:
    """Run a command line (without the program's name) and return its exit code."""
    with warnings.catch_warnings():
        is_quiet = "--quiet" in arguments or "-q" in arguments
        warnings.simplefilter("ignore" if is_quiet else "always", SparklogWarning)
        warnings.showwarning = _show_warning
        try:
            command = typer.main.get_command(app)
            answer = command.main(list(arguments), prog_name=NAME, standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is one line and a code
            if "--debug" in arguments:
                traceback.print_exc()
            return _explain(error)
    return answer if isinstance(answer, int) else 0


def _explain(error: Exception) -> int:
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        return _fail(f"{error.format_message().rstrip('.')}{hint}", MISUSE)
    if isinstance(error, InvalidOptionError):
        return _fail(str(error), MISUSE)
    if isinstance(error, SparklogError | OSError):
        return _fail(str(error), FAILURE)
    return _fail(f"{type(error).__name__}: {error} (--debug shows where)", FAILURE)


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split("\n"))
    print(f"sparklog: error: {line}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_place: Any, **_more: Any) -> None:
    warn(str(message))


def _close_stdout() -> None:
    """Discard buffered output, or Python would complain when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=RootGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to load than everything else together
    context_settings=HELP_OPTIONS,
)
_PARTS = (
    *(topic, produce, consume, offsets, groups, checkpoint, erase, log),
    *(import_log, export_log, dump_log, verify, restore, jobs, transactions, users, services),
)
for part in _PARTS:
    part.add_to(app)


@dataclass(frozen=True, kw_only=True)
class RootArguments(CommonArguments):
    """Options before the command."""

    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False


app.callback(help="Kafka's log on Spark. No server needed; no JVM but for jobs.")(RootArguments)
