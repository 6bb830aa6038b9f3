"""`sparklog backup`: keep the files of a version while they are copied."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from sparklog.cli.arguments import CommonArguments, add_command
from sparklog.cli.output import print_json, print_table
from sparklog.config.times import iso_time, span_ms
from sparklog.errors import InvalidOptionError

Name = Annotated[str, typer.Argument(metavar="NAME", help="The backup's name.")]
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, kw_only=True)
class BeginArguments(CommonArguments):
    """Options of `backup begin`."""

    name: Name
    lasts: Annotated[
        str,
        typer.Option("--for", metavar="TIME", help="How long at most: 30m, 12h, 2d."),
    ] = "1d"


def begin(arguments: BeginArguments) -> None:
    """Pin the newest version: vacuum spares its files until the backup ends."""
    from sparklog.metadata.plans.backups import backups, begun

    lasts_ms = span_ms(arguments.lasts)
    if not lasts_ms:
        raise InvalidOptionError(
            f"--for {arguments.lasts!r}: allowed is a time such as 30m, 12h or 2d", option="for"
        )
    if not _NAME.fullmatch(arguments.name):
        raise InvalidOptionError(
            f"name {arguments.name!r}: allowed are 1 to 100 of a-z A-Z 0-9 . _ -", option="name"
        )
    catalog = arguments.catalog()
    now_ms = catalog.clock.now_ms()
    expires_ms = now_ms + lasts_ms
    image = catalog.log.commit(lambda image: begun(image, arguments.name, now_ms, expires_ms)).image
    found = next(one for one in backups(image, now_ms) if one.name == arguments.name)
    arguments.tell(
        found._asdict(),
        f"Backup {found.name} of version {found.version}: its files stay until "
        f"{iso_time(expires_ms)}, or `sparklog backup end {found.name}`.",
    )


def list_backups(arguments: CommonArguments) -> None:
    """List the backups under way."""
    from sparklog.metadata.plans.backups import backups

    catalog = arguments.catalog()
    found = backups(catalog.log.image(), catalog.clock.now_ms())
    if arguments.is_json:
        for one in found:
            print_json(one._asdict())
        return
    rows = [(one.name, one.version, iso_time(one.expires_ms)) for one in found]
    print_table("Backups", ["name", "version", "until"], rows)


@dataclass(frozen=True, kw_only=True)
class EndArguments(CommonArguments):
    """Options of `backup end`."""

    name: Name


def end(arguments: EndArguments) -> None:
    """End a backup: vacuum may delete the files that only its version names."""
    from sparklog.metadata.plans.backups import ended

    arguments.catalog().log.commit(lambda image: ended(image, arguments.name))
    arguments.tell({"name": arguments.name, "ended": True}, f"Ended backup {arguments.name}.")


def add_to(app: typer.Typer) -> None:
    """Register `backup` with its commands."""
    group = typer.Typer(help="Keep the files of a version while they are copied.")
    add_command(group, "begin", begin)
    add_command(group, "list", list_backups)
    add_command(group, "end", end)
    app.add_typer(group, name="backup")
