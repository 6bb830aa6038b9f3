"""`sparklog import`: the log directories of stopped brokers become topics of the log dir."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sparklog.cli.arguments import CommonArguments
from sparklog.cli.output import print_json, print_table, warn
from sparklog.errors import InvalidOptionError
from sparklog.model import TopicPartition, offsets_json

if TYPE_CHECKING:
    from sparklog.fleet import Fleet
    from sparklog.interop.imports.consumer_offsets import GroupOffset
    from sparklog.interop.imports.import_log import PartitionReport


@dataclass(frozen=True, kw_only=True)
class ImportArguments(CommonArguments):
    """Options of `import`."""

    brokers: Annotated[
        list[str],
        typer.Argument(
            metavar="LOGDIR...", help="The log directories of stopped (or copied) brokers."
        ),
    ]
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="This topic only; may be repeated."),
    ] = None
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="A config of topics that are created."),
    ] = None
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy sealed segments, too, instead of linking them.")
    ] = False
    no_check: Annotated[
        bool,
        typer.Option("--no-check", help="Trust the indexes of sealed segments: do not read these."),
    ] = False
    transactional_ids: Annotated[
        bool,
        typer.Option(
            "--transactional-ids",
            help="Take over the broker's transactional ids and open transactions, too.",
        ),
    ] = False
    consumer_offsets: Annotated[
        bool,
        typer.Option(
            "--consumer-offsets", help="Import nothing: print the committed offsets of groups."
        ),
    ] = False
    group: Annotated[
        str | None, typer.Option("--group", help="With --consumer-offsets, this group only.")
    ] = None
    spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="With --consumer-offsets, one group as Spark's startingOffsets.",
        ),
    ] = False


def import_log(arguments: ImportArguments) -> None:
    """Adopt a broker's topics: same partitions, offsets, timestamps, headers and leader epochs.

    Of the replicas of a partition, the one whose log reaches furthest is taken. Nothing in LOGDIR
    is changed. A second import takes the records that came since. A damaged partition is refused,
    the others are imported, and the exit code is 1; so it is if a transactional id is refused.
    """
    from sparklog.fleet import LocalFleet
    from sparklog.maintenance.progress import progress_bar

    import_on(
        LocalFleet(threads=None, bar=partial(progress_bar, is_quiet=arguments.quiet)), arguments
    )


def import_on(fleet: "Fleet", arguments: ImportArguments) -> None:
    """Import, the partitions taken by this fleet; print the rows, and exit 1 for a problem."""
    from sparklog.config.pairs import pairs
    from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs

    if arguments.consumer_offsets:
        _print_offsets(arguments)
        return
    if arguments.group is not None or arguments.spark:
        raise InvalidOptionError("--group and --spark go with --consumer-offsets", option="group")
    options = ImportOptions(
        topics=arguments.topics or None,
        check=not arguments.no_check,
        link=not arguments.copy,
        config=pairs(arguments.config or (), "--config"),
    )
    reports = import_log_dirs(
        arguments.admin(), arguments.catalog(), arguments.brokers, options, fleet
    )
    _print_reports(arguments, reports)
    is_whole = all(report.problem is None for report in reports)
    if arguments.transactional_ids and is_whole:
        is_whole = _take_over(arguments)
    elif arguments.transactional_ids:
        warn("transactional ids were not taken over: a partition is missing")
    if not is_whole:
        raise typer.Exit(1)


def _take_over(arguments: ImportArguments) -> bool:
    """Take over the transactional ids; return whether none was refused."""
    from sparklog.interop.imports.take_over import TakenId, take_over
    from sparklog.interop.imports.transaction_state import TRANSACTIONS_TOPIC

    taken = take_over(arguments.catalog(), arguments.brokers)
    for one in taken:
        if one.problem is not None and (one.is_refused or not arguments.quiet):
            warn(f"transactional id {one.transactional_id!r} was not taken over: {one.problem}")
    if not (taken or arguments.quiet):
        where = ", ".join(arguments.brokers)
        warn(f"no transactional id was taken over: there is none in {where} ({TRANSACTIONS_TOPIC})")
    if arguments.is_json:
        for one in taken:
            print_json(one.as_row())
    elif taken and not arguments.quiet:
        rows = [(*one[:3], ", ".join(one.aborted), one.problem) for one in taken]
        print_table("transactional ids", TakenId._fields, rows)
    return not any(one.is_refused for one in taken)


def _print_reports(arguments: ImportArguments, reports: "Sequence[PartitionReport]") -> None:
    for report in reports:
        if report.warning is not None and (report.problem is not None or not arguments.quiet):
            warn(report.warning)
    rows = [report.as_row() for report in reports if report.problem is None]
    if arguments.is_json:
        for row in rows:
            print_json(row)
    elif rows and not arguments.quiet:
        columns = list(rows[0])
        print_table("imported", columns, [list(row.values()) for row in rows])


def _print_offsets(arguments: ImportArguments) -> None:
    from sparklog.interop.imports.consumer_offsets import GroupOffset, committed_offsets

    found = [
        one
        for one in committed_offsets(arguments.brokers)
        if arguments.group in (None, one.group)
        and (not arguments.topics or one.topic in arguments.topics)
    ]
    if arguments.spark:
        _check_one_group(found)
        offsets = {TopicPartition(one.topic, one.partition): one.offset for one in found}
        print_json(offsets_json(offsets))
    elif arguments.is_json:
        for row in found:
            print_json(row._asdict())
    else:
        print_table("committed offsets", GroupOffset._fields, found)


def _check_one_group(found: Iterable["GroupOffset"]) -> None:
    groups = sorted({one.group for one in found})
    if len(groups) != 1:
        told = ", ".join(groups[:5]) or "none"
        raise InvalidOptionError(
            f"--spark prints the offsets of one group: give --group; found: {told}", option="group"
        )
