"""`sparklog log`: the commits of a log dir."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sparklog.cli.arguments import CommonArguments
from sparklog.cli.output import print_json, print_long
from sparklog.config.times import iso_time

if TYPE_CHECKING:
    from sparklog.metadata.history.files import HistoryRecord

AUTHOR: Final = ("who", "principal")
"""The parameters that say who made a commit."""


@dataclass(frozen=True, kw_only=True)
class LogArguments(CommonArguments):
    """Options of `log`."""

    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Show at most this many commits.")
    ] = None
    from_version: Annotated[
        int | None, typer.Option("--from", min=0, metavar="VERSION", help="The first version.")
    ] = None
    to_version: Annotated[
        int | None, typer.Option("--to", min=0, metavar="VERSION", help="The last version.")
    ] = None
    oldest_first: Annotated[bool, typer.Option("--reverse", help="The oldest commit first.")] = (
        False
    )


def log(arguments: LogArguments) -> None:
    """Show the commits of the log dir, the newest first: time, operation, author, topics."""
    from sparklog.metadata.history.read import history

    found = history(
        arguments.catalog().log,
        arguments.from_version,
        arguments.to_version,
        limit=arguments.limit,
        newest_first=not arguments.oldest_first,
    )
    if arguments.is_json:
        for record in found:
            print_json(_as_json(record))
        return
    rows = (
        [
            record.version,
            iso_time(record.timestamp_ms),
            record.operation,
            _author(record),
            _told(record),
        ]
        for record in found
    )
    print_long(["version", "time", "operation", "who", "parameters"], rows)


def _as_json(record: "HistoryRecord") -> dict[str, Any]:
    return {
        "version": record.version,
        "timestamp": record.timestamp_ms,
        "operation": record.operation,
        "parameters": dict(record.parameters),
        "id": record.id,
    }


def _told(record: "HistoryRecord") -> str:
    told = record.parameters.items()
    return " ".join(f"{name}={value}" for name, value in told if name not in AUTHOR)


def _author(record: "HistoryRecord") -> str:
    """Return the process, and in brackets the client that it acted for."""
    process, client = (record.parameters.get(name) for name in AUTHOR)
    return f"{process or ''} ({client})" if client else process or ""
