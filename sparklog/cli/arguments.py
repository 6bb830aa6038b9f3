"""Commands whose options are the fields of a frozen dataclass.

    @dataclass(frozen=True, kw_only=True)
    class GreetArguments(CommonArguments):
        name: Annotated[str, typer.Argument(help="Whom to greet.")]

    def greet(arguments: GreetArguments) -> None: …

    add_command(app, "greet", greet)

Every command has the options of CommonArguments, and so has `sparklog` itself: `sparklog --log-dir
D topic list` and `sparklog topic list --log-dir D` mean the same.
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from sparklog.author import name_program
from sparklog.cli.output import open_stdout, print_json
from sparklog.errors import InvalidOptionError, SparklogWarning, UsageError
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED

if TYPE_CHECKING:
    from sparklog.admin import AdminClient
    from sparklog.metadata.catalog import Catalog

LOG_DIR_VARIABLE = "SPARKLOG_LOG_DIR"
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class OutputFormat(StrEnum):
    """The format of output, and of the input of `produce`."""

    TEXT = "text"
    JSON = "json"


class Isolation(StrEnum):
    """Kafka's isolation.level: whether readers see open and aborted transactions."""

    READ_UNCOMMITTED = READ_UNCOMMITTED
    READ_COMMITTED = READ_COMMITTED


IsolationOption = Annotated[
    Isolation,
    typer.Option(
        "--isolation-level",
        "--isolation",
        help="read_committed ends before an open transaction, and hides aborted ones.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class CommonArguments:
    """The options of every command."""

    log_dir: Annotated[
        str | None,
        typer.Option(
            "--log-dir",
            metavar="DIR",
            envvar=LOG_DIR_VARIABLE,
            help="The log dir: a path, file://, s3://, gs://, az:// or abfss://.",
        ),
    ] = None
    storage: Annotated[
        list[str] | None,
        typer.Option(
            "--storage",
            "-S",
            metavar="NAME=VALUE",
            help="A storage setting, such as AWS_ENDPOINT_URL; keep secrets in the environment.",
        ),
    ] = None
    output: Annotated[
        OutputFormat | None,
        typer.Option(
            "--format",
            help="text, or json: an object a line.",
        ),
    ] = None
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No summaries, no warnings."),
    ] = False
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error."),
    ] = False

    @property
    def is_json(self) -> bool:
        """Whether output is JSON lines."""
        return self.output is OutputFormat.JSON

    def tell(self, done: Mapping[str, object], sentence: str) -> None:
        """Print what was done: as JSON, or as a sentence, which --quiet leaves out."""
        if self.is_json:
            print_json(done)
        elif not self.quiet:
            print(sentence)

    @property
    def storage_options(self) -> dict[str, str]:
        """The storage settings that were given. Raises InvalidOptionError without showing one."""
        from sparklog.config.pairs import pairs

        return pairs(self.storage or (), "-S/--storage", is_secret=True)

    def catalog(self, *, flush: bool = True, storage: Mapping[str, str] | None = None) -> "Catalog":
        """Return the catalog of the log dir; `storage` has further storage settings.

        Raises InvalidOptionError if no log dir is given.
        """
        from sparklog.metadata.catalog import Catalog
        from sparklog.storage import open_files

        options = self.storage_options | dict(storage or {})
        return Catalog(open_files(self._log_dir(), options), flush=flush)

    def admin(self) -> "AdminClient":
        """Return an AdminClient of the log dir. Raises InvalidOptionError if none is given."""
        from sparklog.admin import AdminClient

        return AdminClient(self._log_dir(), self.storage_options)

    def admin_of_log_dir(self) -> "AdminClient":
        """Return an AdminClient of a log dir that exists.

        Raises LogDirError: otherwise a missing log dir would look like one without groups.
        """
        admin = self.admin()
        admin.list_topics()
        return admin

    def _log_dir(self) -> str:
        if not self.log_dir:
            raise InvalidOptionError(
                f"no log dir: give --log-dir DIR or set {LOG_DIR_VARIABLE}", option="log-dir"
            )
        return self.log_dir


@dataclass(frozen=True, kw_only=True)
class PastArguments(CommonArguments):
    """Options of commands that may read the log dir as of one commit."""

    version_as_of: Annotated[
        int | None,
        typer.Option(
            "--version-as-of", min=0, metavar="VERSION", help="Read as of this commit (log)."
        ),
    ] = None
    timestamp_as_of: Annotated[
        str | None,
        typer.Option(
            "--timestamp-as-of", metavar="TIME", help="Read as of this time: ms, ISO, or -48h."
        ),
    ] = None

    @property
    def is_of_the_past(self) -> bool:
        """True if --version-as-of or --timestamp-as-of is given."""
        return self.version_as_of is not None or self.timestamp_as_of is not None

    def catalog_as_of(self) -> "Catalog":
        """Return the catalog as of the requested commit, or the present one.

        Raises InvalidOptionError for a version and a time together, and for text that is no time.
        """
        catalog = self.catalog()
        if not self.is_of_the_past:
            return catalog
        from sparklog.cli.positions import parse_time
        from sparklog.metadata.past import PastCatalog

        if self.version_as_of is not None and self.timestamp_as_of is not None:
            raise InvalidOptionError(
                "give --version-as-of or --timestamp-as-of", option="version-as-of"
            )
        text = self.timestamp_as_of
        timestamp_ms = None if text is None else parse_time(text, catalog.clock.now_ms())
        return PastCatalog(catalog, version=self.version_as_of, timestamp_ms=timestamp_ms)


Arguments = TypeVar("Arguments", bound=CommonArguments)


def add_command(app: typer.Typer, name: str, function: Callable[[Arguments], None]) -> None:
    """Register a function of one dataclass as a command whose options are the fields."""
    hints = get_type_hints(function)
    add_command_of(app, name, function, hints[next(iter(hints))], inspect.getdoc(function))


def add_command_of(
    app: typer.Typer,
    name: str,
    function: Callable[[Arguments], None],
    kind: type[Arguments],
    about: str | None,
) -> None:
    """Register a function as a command; its options are the fields of `kind`, its help `about`."""

    def run(context: typer.Context, arguments: Arguments) -> None:
        open_stdout()
        name_program(context.command_path.removeprefix("sparklog "))
        whole = _with_root(arguments, context)
        if whole.quiet:
            warnings.simplefilter("ignore", SparklogWarning)
        function(whole)

    app.command(name, help=about, cls=command_class(run))(kind)


def command_class(function: Callable[[typer.Context, Any], None]) -> type[TyperCommand]:
    """Return the class of a command that calls `function` with its context and its arguments.

    Typer reads the options of a command from its callback: here that is the class of the arguments.
    """

    class Command(TyperCommand):
        def invoke(self, ctx: Any) -> None:
            function(ctx, super().invoke(ctx))

    return Command


def log_dir_of(context: typer.Context) -> str | None:
    """Return the log dir given after the command's name, else before it, else by the variable."""
    params = (context if is_typed(context, "log_dir") else context.find_root()).params
    return params.get("log_dir")


def is_typed(context: Any, name: str) -> bool:
    """Whether the command line gives an option; the environment and defaults do not count."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _with_root(arguments: Arguments, context: typer.Context) -> Arguments:
    """Return the arguments with the common options that were given before the command.

    Options after the command win; storage settings of both places are merged.
    """
    root = context.find_root().params
    common: dict[str, Any] = {
        field.name: getattr(arguments, field.name) or root.get(field.name)
        for field in fields(CommonArguments)
    }
    common["storage"] = [*(root.get("storage") or ()), *(arguments.storage or ())]
    return replace(arguments, **common | {"log_dir": log_dir_of(context)})


def chosen(text: str | None, allowed: Sequence[str], option: str) -> list[str]:
    """Return the words of `A,B`, spelled as in `allowed`; the user may write them in any case.

    Raises InvalidOptionError.
    """
    spelled = {one.lower(): one for one in allowed}
    words = [one.strip() for one in (text or "").split(",") if one.strip()]
    for word in words:
        if word.lower() not in spelled:
            raise InvalidOptionError(
                f"{option} {word!r}: allowed are {', '.join(allowed)}", option=option
            )
    return [spelled[word.lower()] for word in words]


def numbers(texts: Iterable[str], option: str) -> list[int]:
    """Return the partition numbers of texts such as `0,2`, sorted, each once.

    Raises InvalidOptionError.
    """
    parts = [part.strip() for text in texts for part in text.split(",")]
    wrong = [part for part in parts if not (part.isascii() and part.isdigit())]
    if wrong:
        raise InvalidOptionError(
            f"{option} {wrong[0]!r}: allowed are partition numbers, separated by commas",
            option=option,
        )
    return sorted({int(part) for part in parts})


def raw(text: str) -> bytes:
    """Return the bytes of an argument, also those that are not UTF-8."""
    return text.encode(errors="surrogateescape")


def stdin() -> TextIO:
    """Return the standard input. Raises UsageError if the shell has closed it (`<&-`)."""
    if sys.stdin is None:
        raise UsageError("cannot read stdin: it is closed")
    return sys.stdin


def one_topic(named: str | None, option: str | None) -> str:
    """Return the topic, given by position or as --topic. Raises as `one_name`."""
    return one_name(named, option, "topic")


def one_name(named: str | None, option: str | None, kind: str) -> str:
    """Return the name of a topic or a group (`kind`), given by position or as --topic or --group.

    Raises InvalidOptionError for none, and for two different ones.
    """
    if named and option and named != option:
        raise InvalidOptionError(
            f"two {kind}s, {named!r} and --{kind} {option!r}: give one", option=kind
        )
    found = named or option
    if not found:
        raise InvalidOptionError(f"no {kind}: give its name", option=kind)
    return found
