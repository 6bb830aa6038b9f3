"""`sparklog jobs scheduler`: every job at its interval, until SIGTERM or SIGINT."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sparklog.cli.arguments import OutputFormat, is_typed, with_signature
from sparklog.cli.extras import extra
from sparklog.config.pairs import pairs
from sparklog.errors import InvalidConfigError, InvalidOptionError


@dataclass(frozen=True, kw_only=True)
class SchedulerArguments:
    """Options of the scheduler. It always prints JSON lines, and never a progress bar."""

    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="A TOML file.")]
    log_dir: Annotated[
        list[str] | None,
        typer.Option("--log-dir", metavar="DIR", help="Instead of log.dirs; again for more."),
    ] = None
    storage: Annotated[
        list[str] | None,
        typer.Option("--storage", "-S", metavar="NAME=VALUE", help="A storage setting."),
    ] = None
    output: Annotated[
        OutputFormat, typer.Option("--format", help="JSON lines, always.", hidden=True)
    ] = OutputFormat.JSON
    quiet: Annotated[bool, typer.Option("--quiet", "-q", hidden=True)] = True


def scheduler(context: typer.Context, **given: Any) -> None:
    """Run every job at its interval, each in its own thread, over one warm SparkSession."""
    with extra("spark"):
        from sparklog.spark.jobs.scheduler import serve
        from sparklog.spark.jobs.scheduler_config import parse

    root = context.find_root()
    before = [root.params["log_dir"]] if is_typed(root, "log_dir") else []
    texts = [*(root.params["storage"] or ()), *(given["storage"] or ())]
    storage = pairs(texts, "-S/--storage", is_secret=True)
    try:
        text = given["config"].read_text(encoding="utf-8")
        config = parse(text, given["log_dir"] or before)
    except (InvalidConfigError, OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"--config {given['config']}: {error}", option="config") from error
    config.storage.update(storage)
    raise typer.Exit(serve(config))


def add_to(app: typer.Typer) -> None:
    """Register `scheduler`."""
    app.command("scheduler")(with_signature(scheduler, SchedulerArguments))
