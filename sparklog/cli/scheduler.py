"""`sparklog jobs scheduler`: every job at its interval, until a signal ends it."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sparklog.cli.arguments import OutputFormat, command_class, is_typed
from sparklog.cli.extras import extra
from sparklog.config.pairs import pairs
from sparklog.errors import InvalidConfigError, InvalidOptionError


@dataclass(frozen=True, kw_only=True)
class SchedulerArguments:
    """Options of the scheduler. It always prints JSON lines, and never a progress bar."""

    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="A TOML file.")]
    log_dir: Annotated[
        list[str] | None,
        typer.Option("--log-dir", metavar="DIR", help="Instead of log.dirs; may be repeated."),
    ] = None
    storage: Annotated[
        list[str] | None,
        typer.Option("--storage", "-S", metavar="NAME=VALUE", help="A storage setting."),
    ] = None
    output: Annotated[
        OutputFormat, typer.Option("--format", help="JSON lines, always.", hidden=True)
    ] = OutputFormat.JSON
    quiet: Annotated[bool, typer.Option("--quiet", "-q", hidden=True)] = True


def scheduler(context: typer.Context, arguments: SchedulerArguments) -> None:
    """Run every job at its interval, each in its own thread, over one warm SparkSession."""
    with extra("spark"):
        from sparklog.spark.jobs.scheduler import serve
        from sparklog.spark.jobs.scheduler_config import parse

    root = context.find_root()
    before = [root.params["log_dir"]] if is_typed(root, "log_dir") else []
    texts = [*(root.params["storage"] or ()), *(arguments.storage or ())]
    storage = pairs(texts, "-S/--storage", is_secret=True)
    try:
        text = arguments.config.read_text(encoding="utf-8-sig")
        config = parse(text, arguments.log_dir or before)
    except (InvalidConfigError, OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(
            f"--config {arguments.config}: {error}", option="config"
        ) from error
    config.storage.update(storage)
    raise typer.Exit(serve(config))


def add_to(app: typer.Typer) -> None:
    """Register `scheduler`."""
    about = inspect.getdoc(scheduler)
    app.command("scheduler", help=about, cls=command_class(scheduler))(SchedulerArguments)
