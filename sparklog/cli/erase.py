"""`sparklog erase`: removes the records of some keys from a topic's log and table."""

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sparklog.cli.arguments import CommonArguments, raw
from sparklog.cli.completion import topic_names
from sparklog.cli.output import counted, print_json

if TYPE_CHECKING:
    from sparklog.admin.erase import EraseReport
    from sparklog.fleet import Fleet

YEAR_10000_MS: Final = 253_402_300_800_000
"""The beginning of the first year that no datetime has."""
_LINE_END: Final = re.compile(rb"\r?\n")


@dataclass(frozen=True, kw_only=True)
class EraseArguments(CommonArguments):
    """Options of `erase`."""

    topic: Annotated[
        str, typer.Option("--topic", metavar="T", help="The topic.", autocompletion=topic_names)
    ]
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="K", help="A key, as its bytes; may be repeated."),
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="F", help="A file of keys, one a line; empty lines are none."
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the records; change nothing.")
    ] = False

    def keys(self) -> list[bytes]:
        """Return the keys of both options, without empty lines and a BOM of the file.

        Raises OSError.
        """
        data = b"" if self.key_file is None else self.key_file.read_bytes()
        lines = _LINE_END.split(data.removeprefix(BOM_UTF8))
        return [*map(raw, self.key or ()), *filter(None, lines)]


def erase(arguments: EraseArguments) -> None:
    """Remove the records that have one of the keys, from a topic's log and its table.

    The offsets become gaps. Vacuum deletes the files with the records, after its delays.
    """
    from functools import partial

    from sparklog.fleet import LocalFleet
    from sparklog.maintenance.progress import progress_bar

    bar = partial(progress_bar, is_quiet=arguments.quiet)
    erase_on(LocalFleet(threads=None, bar=bar), arguments)


def erase_on(fleet: "Fleet", arguments: EraseArguments) -> "EraseReport":
    """Erase, segments and files done by this fleet; print the report, and return it."""
    from sparklog.admin.erase import erase as erased

    report = erased(
        arguments.catalog(), arguments.topic, arguments.keys(), fleet, dry_run=arguments.dry_run
    )
    if arguments.is_json:
        print_json(report.as_row())
    elif not arguments.quiet:
        _print(report)
    return report


def _print(report: "EraseReport") -> None:
    removed = "would be removed" if report.dry_run else "removed"
    print(
        f"{report.topic}: {counted(report.records, 'record')} {removed} "
        f"from {counted(report.segments, 'segment')}, {counted(report.table.rows, 'row')} "
        f"from {counted(report.table.files, 'file')} of the table"
    )
    for number, count in report.partitions.items():
        print(f"  partition {number}: {counted(count, 'record')}")
    print(
        f"  {counted(report.searched, 'segment')} searched, {report.spared:,} spared by their key "
        f"indexes, {counted(report.moved, 'slice')} moved out of shared segments"
    )
    if not report.dry_run:
        print(f"  vacuum can delete the last file {_from(report.files_gone_ms)}")
    print(f"  not reached: {'; '.join(report.outside)}")


def _from(time_ms: int) -> str:
    """Return the text "from <time> on"; a datetime ends with the year 9999."""
    if time_ms >= YEAR_10000_MS:
        return "only after the year 9999: a delay of a topic is that long"
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"from {when.isoformat(timespec='seconds')} on"
