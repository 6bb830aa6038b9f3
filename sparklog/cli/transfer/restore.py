"""`sparklog restore`: a restored copy becomes a log dir of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparklog.cli.arguments import CommonArguments
from sparklog.cli.output import print_json


@dataclass(frozen=True, kw_only=True)
class RestoreArguments(CommonArguments):
    """Options of `restore`."""


def restore(arguments: RestoreArguments) -> None:
    """Make a restored copy a log dir of its own: a new cluster id, a new incarnation."""
    from sparklog.metadata.upkeep.restore import restore as restored

    catalog = arguments.catalog()
    cluster_id: str | None = None
    notes: list[str] = []
    try:
        cluster_id = restored(catalog.files, catalog.clock, notes.append).cluster_id
    finally:
        if cluster_id or notes:  # files were put aside also where the commit then fails
            _print(arguments, cluster_id, notes)


def _print(arguments: CommonArguments, cluster_id: str | None, notes: Sequence[str]) -> None:
    """Print what was done; there is no cluster id if the restore has failed."""
    if arguments.is_json:
        print_json({"cluster_id": cluster_id, "notes": notes})
        return
    for line in () if arguments.quiet else notes:
        print(line)
    if cluster_id is not None:
        print(f"cluster id {cluster_id}")
