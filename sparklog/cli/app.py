"""All commands, and their exit codes.

exit code 0   done; also when the reader of a pipe closes it
exit code 1   the operation failed: one line on stderr names the reason
exit code 2   wrong usage: an option is unknown, missing, or has an invalid value
exit code 130 interrupted

`--debug` shows the traceback as well. The module of a command is loaded when the command is named:
to load all of them would take longer than most commands.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

import sparklog
from sparklog.cli.arguments import HELP_OPTIONS, CommonArguments, add_command
from sparklog.cli.output import say, tell_error, warn
from sparklog.errors import InvalidOptionError, SparklogError, SparklogWarning

NAME = "sparklog"
FAILURE = 1
MISUSE = 2


class Command(NamedTuple):
    """A command's place, module:function; the first line of its help.

    A place without a function is a module whose `add_to` registers the command.
    """

    place: str
    about: str


COMMANDS: Final = {
    "produce": Command("records.produce:produce", "Write messages from stdin or files to a topic."),
    "consume": Command(
        "records.consume:consume",
        "Print the records of a topic, by default from the log start to the log end.",
    ),
    "get-offsets": Command(
        "offsets:get_offsets",
        "Print topic:partition:offset, for the end, the start or a time.",
    ),
    "delete-records": Command(
        "offsets:delete_records",
        "Make records below an offset unreadable: raise the log start offset.",
    ),
    "erase": Command(
        "erase:erase",
        "Remove the records that have one of the keys, from a topic's log and its table.",
    ),
    "log": Command(
        "log:log",
        "Show the commits of the log dir, the newest first: time, operation, author, topics.",
    ),
    "import": Command(
        "transfer.import_log:import_log",
        "Adopt a broker's topics: same partitions, offsets, timestamps, headers and leader epochs.",
    ),
    "export": Command(
        "transfer.export_log:export_log",
        "Write topics as a broker keeps them, so that a Kafka 4.1.1 broker mounts them.",
    ),
    "dump-log": Command(
        "transfer.dump_log:dump_log",
        "Print segments, indexes and snapshots of a broker or of this log, as kafka-dump-log.sh "
        "does.",
    ),
    "verify": Command(
        "verify:verify",
        "Check the metadata log, files, logs and indexes; exit 1 when something is wrong.",
    ),
    "restore": Command(
        "transfer.restore:restore",
        "Make a restored copy a log dir of its own: a new cluster id, a new incarnation.",
    ),
    "backup": Command("transfer.backup", "Keep the files of a version while they are copied."),
    "rest": Command("services", "Serve the log dir over HTTP until SIGTERM."),
    "gateway": Command("services", "Serve the log dir to Kafka's clients until SIGTERM."),
    "topic": Command("topic", "Create, list, describe, alter, delete and undelete topics."),
    "groups": Command(
        "consumer_groups.groups", "Show and move the offsets of consumer groups, without a gateway."
    ),
    "checkpoint": Command(
        "consumer_groups.checkpoint", "Show a stream's offsets, and turn them into a group's."
    ),
    "jobs": Command(
        "jobs",
        "Run a job with Spark, or the scheduler, which runs jobs by the clock.",
    ),
    "transactions": Command("transactions", "List, describe and abort transactions."),
    "users": Command("users", "Add, list and delete the users of gateways (SCRAM)."),
}


class RootGroup(TyperGroup):
    """All commands as a group. If the reader of stdout closes its pipe, they end without error."""

    def __init__(self, **given: Any) -> None:
        """`given` are the arguments of TyperGroup."""
        super().__init__(**given)
        self.commands = {
            name: TyperCommand(name, help=one.about, rich_markup_mode=None)
            for name, one in COMMANDS.items()
        }
        """Commands without options, for the list in the help."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer's method
        """Return a command with its options; None for a name that is none."""
        if cmd_name not in COMMANDS:
            return None
        part = typer.Typer(rich_markup_mode=None)
        part.callback()(lambda: None)
        module, _, function = COMMANDS[cmd_name].place.partition(":")
        found = import_module(f"sparklog.cli.{module}")
        if function:
            add_command(part, cmd_name, getattr(found, function))
        else:
            found.add_to(part)
        return typer.main.get_group(part).commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's method
        """Write the list of the commands without their modules."""
        room = formatter.width - 6 - max(map(len, self.commands))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(room)) for name, one in self.commands.items()]
            )

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
        warnings.simplefilter("always", SparklogWarning)
        warnings.showwarning = _show_warning
        try:
            command = typer.main.get_command(app)
            answer = command.main(list(arguments), prog_name=NAME, standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is one line and a code
            if "--debug" in arguments:
                say(traceback.format_exc().rstrip())
            return _explain(error)
    return answer if isinstance(answer, int) else 0


def _explain(error: Exception) -> int:
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        message = error.format_message().rstrip(".").replace(": Value error, ", ": ")  # pydantic's
        return _fail(f"{message}{hint}", MISUSE)
    if isinstance(error, InvalidOptionError):
        return _fail(str(error), MISUSE)
    if isinstance(error, SparklogError | OSError):
        return _fail(str(error), FAILURE)
    return _fail(f"{type(error).__name__}: {error} (--debug shows where)", FAILURE)


def _fail(message: str, code: int) -> int:
    tell_error(message)
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


@dataclass(frozen=True, kw_only=True)
class RootArguments(CommonArguments):
    """Options before the command."""

    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False


app.callback(help="Kafka's log on Spark. No server needed; no JVM but for jobs.")(RootArguments)
