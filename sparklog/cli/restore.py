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
    found = restored(catalog.files, catalog.clock)
    if arguments.is_json:
        print_json({"cluster_id": found.log_dir.cluster_id, "notes": found.notes})
    else:
        for line in () if arguments.quiet else found.notes:
            print(line)
        print(f"cluster id {found.log_dir.cluster_id}")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    add_command(app, "restore", restore)
