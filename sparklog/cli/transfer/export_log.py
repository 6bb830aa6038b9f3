"""`sparklog export`: topics as a broker's log directory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparklog.cli.arguments import CommonArguments
from sparklog.cli.output import print_json, print_table
from sparklog.errors import InvalidOptionError

if TYPE_CHECKING:
    from sparklog.interop.exports.export_log import ExportReport


@dataclass(frozen=True, kw_only=True)
class ExportArguments(CommonArguments):
    """Options of `export`."""

    into: Annotated[
        str | None,
        typer.Option("--into", metavar="LOGDIR", help="A stopped broker's log directory."),
    ] = None
    to: Annotated[
        str | None, typer.Option("--to", metavar="DIR", help="A new directory, for the files only.")
    ] = None
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="This topic only; may be repeated."),
    ] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the target's files of these partitions.")
    ] = False
    link: Annotated[
        bool,
        typer.Option(
            "--link",
            help="Hard links of sealed segments instead of copies: a broker that cuts its log "
            "would cut them here.",
        ),
    ] = False
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Verify no checksums of the copied batches.")
    ] = False


def export_log(arguments: ExportArguments) -> None:
    """Write topics as a broker keeps them, so that a Kafka 4.1.1 broker mounts them.

    For --into: create the topics on the target with the same partition counts, stop it, export,
    start it.
    """
    from sparklog.interop.exports.export_log import ExportOptions, export_into, export_to

    options = ExportOptions(
        topics=arguments.topics or None,
        replace=arguments.replace,
        check=not arguments.no_check,
        link=arguments.link,
    )
    if (arguments.into is None) == (arguments.to is None):
        raise InvalidOptionError("give --into LOGDIR or --to DIR", option="into")
    if arguments.into is not None:
        reports = export_into(arguments.catalog(), arguments.into, options)
    else:
        reports = export_to(arguments.catalog(), str(arguments.to), options)
    rows = [_row(report) for report in reports]
    if arguments.is_json:
        for row in rows:
            print_json(row)
    elif rows and not arguments.quiet:
        print_table("exported", list(rows[0]), [list(row.values()) for row in rows])


def _row(report: "ExportReport") -> dict[str, Any]:
    return {
        "topic": report.topic_partition.topic,
        "partition": report.topic_partition.partition,
        "start": report.start,
        "end": report.end,
        "segments": report.exported.segments,
        "linked": report.exported.linked,
        "bytes": report.exported.bytes,
    }
