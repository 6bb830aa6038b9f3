"""`sparklog restore`: a restored copy becomes a log dir of its own."""

from dataclasses import dataclass

import typer

from sparklog.cli.arguments import CommonArguments, add_command
from sparklog.cli.output import print_json


@dataclass(frozen=True, kw_only=True)
class RestoreArguments(CommonArguments):
    """Options of `restore`."""


def restore(arguments: RestoreArguments) -> None:
    """Make a restored copy a log dir of its own: a new cluster id, a new incarnation."""
    from sparklog.metadata.restore import restore as restored

    catalog = arguments.catalog()
    notes: list[str] = []
    try:
        cluster_id = restored(catalog.files, catalog.clock, notes.append).cluster_id
    finally:  # files were put aside also where the commit then fails
        for line in () if arguments.is_json or arguments.quiet else notes:
            print(line)
    if arguments.is_json:
        print_json({"cluster_id": cluster_id, "notes": notes})
    else:
        print(f"cluster id {cluster_id}")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    add_command(app, "restore", restore)
