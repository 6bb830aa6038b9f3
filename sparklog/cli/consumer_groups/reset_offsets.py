"""`sparklog groups reset-offsets`: new offsets of groups; shown, and with --execute set."""

import csv
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sparklog.cli.consumer_groups.groups import (
    GroupsArguments,
    TopicsOption,
    of_present_topics,
    partitions_named,
)
from sparklog.cli.output import print_columns, print_json
from sparklog.cli.positions import parse_time
from sparklog.errors import InvalidOptionError, SparklogWarning, UsageError
from sparklog.model import EARLIEST, LATEST, TopicPartition

if TYPE_CHECKING:
    from sparklog.admin import AdminClient

_DURATION: Final = re.compile(
    r"P(?:(?P<d>\d{1,9})D)?"
    r"(?:T(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9}(?:\.\d{1,3})?)S)?)?"
)
_NUMBER: Final = re.compile(r"\d{1,18}")
_UNIT_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, kw_only=True)
class ResetArguments(GroupsArguments):
    """Options of `groups reset-offsets`."""

    topic: TopicsOption = None
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All partitions that the group has committed.")
    ] = False
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the log start offset.")] = (
        False
    )
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the log end offset.")] = False
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="To the committed offset, or else the log end offset."),
    ] = False
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", help="To an offset.")
    ] = None
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", metavar="N", help="N records on, or back (-N)."),
    ] = None
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime", metavar="TIME", help="To a time: ms since 1970, ISO, or -48h."
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration", metavar="PnDTnHnMnS", help="To the time this long ago: P2DT6H."
        ),
    ] = None
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", help="To the offsets of a CSV file, as --export prints it."),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the new offsets, as without an option.")
    ] = False
    execute: Annotated[bool, typer.Option("--execute", help="Set the new offsets.")] = False
    export: Annotated[
        bool,
        typer.Option(
            "--export", help="Print CSV: topic,partition,offset; if several, group first."
        ),
    ] = False


def reset_offsets(arguments: ResetArguments) -> None:
    """Set the offsets of groups without members.

    Without --execute it only shows the new offsets. Offsets outside the log become its start or
    end.
    """
    if arguments.execute and arguments.dry_run:
        raise InvalidOptionError("give --dry-run or --execute", option="execute")
    admin = arguments.admin_of_log_dir()
    group_ids = _groups_of_file(arguments) or arguments.group_ids(admin)
    place_of = _scenario(arguments, admin)
    planned = {one: place_of(one) for one in group_ids}
    if arguments.execute:
        _execute(arguments, admin, planned)
    else:
        _show(arguments, planned, with_group=len(planned) > 1)


def _execute(
    arguments: ResetArguments, admin: "AdminClient", planned: Mapping[str, Offsets]
) -> None:
    """Set the offsets of one group after another; show those that were set, also on an error."""
    done: dict[str, Offsets] = {}
    try:
        for group_id, offsets in planned.items():
            admin.alter_consumer_group_offsets(group_id, offsets)
            done[group_id] = offsets
    finally:
        if done or not planned:
            _show(arguments, done, with_group=len(planned) > 1)


def _groups_of_file(arguments: ResetArguments) -> list[str]:
    """Return with --all-groups the groups that the file names, which may be new; else none."""
    if arguments.from_file is None or not arguments.all_groups:
        return []
    named = [group for group, _, _ in _rows(arguments.from_file) if group is not None]
    return list(dict.fromkeys(named))


def _show(arguments: ResetArguments, planned: Mapping[str, Offsets], *, with_group: bool) -> None:
    """Print offsets; `with_group` is about the CSV of --export."""
    rows = [
        (group_id, place.topic, place.partition, offset)
        for group_id, offsets in planned.items()
        for place, offset in offsets.items()
    ]
    if arguments.is_json:
        for row in rows:
            print_json(dict(zip(("group", "topic", "partition", "new_offset"), row, strict=True)))
    elif arguments.export:
        first = 0 if with_group else 1
        csv.writer(sys.stdout, lineterminator="\n").writerows(row[first:] for row in rows)
    else:
        print_columns(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows)


def _scenario(arguments: ResetArguments, admin: "AdminClient") -> Callable[[str], Offsets]:
    """Return the function of the one scenario given; raises InvalidOptionError for none or two."""
    scenarios: dict[str, Callable[[str], Offsets] | None] = {
        "--to-earliest": _at(arguments, admin, EARLIEST) if arguments.to_earliest else None,
        "--to-latest": _at(arguments, admin, LATEST) if arguments.to_latest else None,
        "--to-current": _moved(arguments, admin, None) if arguments.to_current else None,
        "--to-offset": _fixed(arguments, admin),
        "--shift-by": (
            None if arguments.shift_by is None else _moved(arguments, admin, arguments.shift_by)
        ),
        "--to-datetime": _since(arguments, admin, arguments.to_datetime, parse_time),
        "--by-duration": _since(arguments, admin, arguments.by_duration, _ago_ms),
        "--from-file": _read(arguments, admin),
    }
    given = [one for one in scenarios.values() if one is not None]
    if len(given) != 1:
        raise InvalidOptionError(f"give one of {', '.join(scenarios)}", option="to-offset")
    return given[0]


def _places(arguments: ResetArguments, admin: "AdminClient", group_id: str) -> list[TopicPartition]:
    if arguments.all_topics == bool(arguments.topic):
        raise InvalidOptionError("give --topic or --all-topics", option="topic")
    if arguments.topic:
        return partitions_named(admin, arguments.topic)
    return of_present_topics(admin, admin.list_consumer_group_offsets(group_id))


def _at(arguments: ResetArguments, admin: "AdminClient", when: int) -> Callable[[str], Offsets]:
    def found(group_id: str) -> Offsets:
        places = _places(arguments, admin, group_id)
        ends = _offsets(admin, places, LATEST)
        at = _offsets(admin, places, when)
        return {place: ends[place] if at[place] < 0 else at[place] for place in places}

    return found


def _since(
    arguments: ResetArguments,
    admin: "AdminClient",
    text: str | None,
    parse: Callable[[str, int], int],
) -> Callable[[str], Offsets] | None:
    if text is None:
        return None
    return _at(arguments, admin, parse(text, arguments.catalog().clock.now_ms()))


def _ago_ms(text: str, now_ms: int) -> int:
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {unit: n for unit, n in match.groupdict().items() if n}
    if not parts:
        raise InvalidOptionError(
            f"--by-duration {text!r}: allowed is PnDTnHnMnS, such as P2D or PT30M",
            option="by-duration",
        )
    return max(now_ms - int(sum(float(n) * _UNIT_MS[unit] for unit, n in parts.items())), 0)


def _fixed(arguments: ResetArguments, admin: "AdminClient") -> Callable[[str], Offsets] | None:
    wanted = arguments.to_offset
    if wanted is None:
        return None
    return lambda group_id: _within(
        admin, dict.fromkeys(_places(arguments, admin, group_id), wanted)
    )


def _moved(
    arguments: ResetArguments, admin: "AdminClient", shift: int | None
) -> Callable[[str], Offsets]:
    """Return a function that shifts the committed offsets of a group.

    With `shift` None they stay, and a partition without one gets its log end offset.
    """

    def found(group_id: str) -> Offsets:
        places = _places(arguments, admin, group_id)
        known = admin.list_consumer_group_offsets(group_id)
        current = {place: one.offset for place, one in known.items() if one is not None}
        missing = [place for place in places if place not in current]
        if missing and shift is not None:
            raise UsageError(f"{missing[0]}: group {group_id!r} has committed nothing to shift")
        current |= _offsets(admin, missing, LATEST)
        return _within(admin, {place: current[place] + (shift or 0) for place in places})

    return found


def _read(arguments: ResetArguments, admin: "AdminClient") -> Callable[[str], Offsets] | None:
    path = arguments.from_file
    if path is None:
        return None
    if arguments.topic or arguments.all_topics:
        raise InvalidOptionError(
            "--from-file names the partitions: it goes without --topic and --all-topics",
            option="from-file",
        )
    rows = list(_rows(path))
    places = {place for _, place, _ in rows}
    chosen = set(of_present_topics(admin, places)) if arguments.all_groups else places

    def found(group_id: str) -> Offsets:
        of_group: Offsets = {}
        for name, place, offset in rows:
            if name in (None, group_id):
                if place in of_group:
                    raise UsageError(f"{path} has two offsets of {place}: allowed is one")
                of_group[place] = offset
        if not of_group:
            raise UsageError(f"{path} has no offsets of group {group_id!r}")
        return _within(admin, {place: of_group[place] for place in of_group if place in chosen})

    return found


def _rows(path: Path) -> Iterable[tuple[str | None, TopicPartition, int]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no CSV in UTF-8: {error}") from None
    for number, row in enumerate(lines, 1):
        if not row:
            continue  # an empty line
        if len(row) not in (3, 4) or not all(map(_NUMBER.fullmatch, row[-2:])):
            raise UsageError(
                f"{path}, line {number}: allowed are topic,partition,offset and "
                f"group,topic,partition,offset"
            )
        place = TopicPartition(row[-3], int(row[-2]))
        yield row[0] if len(row) > 3 else None, place, int(row[-1])


def _offsets(admin: "AdminClient", places: Iterable[TopicPartition], when: int) -> Offsets:
    found = admin.list_offsets(dict.fromkeys(places, when))
    return {place: one.offset for place, one in found.items()}


def _within(admin: "AdminClient", wanted: Offsets) -> Offsets:
    """Return offsets within their logs."""
    starts, ends = _offsets(admin, wanted, EARLIEST), _offsets(admin, wanted, LATEST)
    found = {place: min(max(one, starts[place]), ends[place]) for place, one in wanted.items()}
    for place, offset in found.items():
        if offset != wanted[place]:
            problem = f"{place}: offset {wanted[place]} is outside the log, it becomes {offset}"
            warnings.warn(problem, SparklogWarning, stacklevel=2)
    return found
