"""`sparklog checkpoint`: shows a stream's offsets; turns them into a group's, and a group's back.

    checkpoint/offsets/7   v1 | metadata | a source's offsets, {"topic": {"partition": N}} | …
    checkpoint/commits/7   the micro-batch 7 is done: the stream has read up to its offsets

The JSON of a source is that of Spark's Kafka connector, so its checkpoints can be read, too.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from sparklog.cli.arguments import CommonArguments, add_command
from sparklog.cli.consumer_groups.groups import of_present_topics
from sparklog.cli.output import print_columns, print_json
from sparklog.errors import GroupIdNotFoundError, InvalidOptionError, UsageError
from sparklog.model import STREAM_MEMBER, TopicPartition, offsets_json

Checkpoint = Annotated[str, typer.Argument(metavar="DIR", help="The stream's checkpointLocation.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]


@dataclass(frozen=True, kw_only=True)
class ShowArguments(CommonArguments):
    """Options of `checkpoint show`."""

    checkpoint: Checkpoint


@dataclass(frozen=True, kw_only=True)
class ToGroupArguments(CommonArguments):
    """Options of `checkpoint to-group`."""

    checkpoint: Checkpoint
    group: Group
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the offsets, as without an option.")
    ] = False
    execute: Annotated[bool, typer.Option("--execute", help="Set the group's offsets.")] = False


@dataclass(frozen=True, kw_only=True)
class FromGroupArguments(CommonArguments):
    """Options of `checkpoint from-group`."""

    group: Group


def show(arguments: ShowArguments) -> None:
    """Show how far a stream has read: the end offsets of its last finished micro-batch."""
    batch, found = _read(arguments)
    if arguments.is_json:
        print_json({"batch": batch, "offsets": offsets_json(found)})
    else:
        _print(found)


def to_group(arguments: ToGroupArguments) -> None:
    """Set a group's offsets to those of a stream. Without --execute it only shows them."""
    if arguments.execute and arguments.dry_run:
        raise InvalidOptionError("give --dry-run or --execute", option="execute")
    _, found = _read(arguments)
    if arguments.execute:
        arguments.admin().alter_consumer_group_offsets(arguments.group, found)
    if arguments.is_json:
        print_json({"group": arguments.group, "offsets": offsets_json(found)})
    else:
        _print(found)


def from_group(arguments: FromGroupArguments) -> None:
    """Print a group's committed offsets as Spark's startingOffsets, for a new stream."""
    admin = arguments.admin_of_log_dir()
    found = admin.list_consumer_group_offsets(arguments.group)
    present = of_present_topics(admin, found)
    offsets = {place: one.offset for place in present if (one := found[place]) is not None}
    if not offsets:
        raise GroupIdNotFoundError(f"group {arguments.group!r} has committed nothing")
    print_json(offsets_json(offsets))


def _print(offsets: dict[TopicPartition, int]) -> None:
    rows = [(*place, offset) for place, offset in sorted(offsets.items())]
    print_columns(["TOPIC", "PARTITION", "OFFSET"], rows)


def _read(arguments: ShowArguments | ToGroupArguments) -> tuple[int, dict[TopicPartition, int]]:
    """Return the last finished micro-batch and its end offsets.

    Raises UsageError if there is no checkpoint, or none of a log of topics.

    If several sources read a partition, the one that is behind counts.
    """
    from sparklog.storage import open_files

    files = open_files(arguments.checkpoint, arguments.storage_options)
    names = (one.path.rpartition("/")[2] for one in files.list("commits"))
    done = [int(name) for name in names if name.isdecimal()]
    if not done:
        raise UsageError(
            f"{arguments.checkpoint}: no checkpoint of a stream, or no micro-batch of it is done"
        )
    batch = max(done)
    data = bytes(files.read(f"offsets/{batch}"))
    found: dict[TopicPartition, int] = {}
    for source in data.split(b"\n")[2:]:
        for place, offset in _offsets(source, f"{arguments.checkpoint}/offsets/{batch}").items():
            found[place] = min(offset, found.get(place, offset))
    return batch, found


def _offsets(source: bytes, path: str) -> dict[TopicPartition, int]:
    """Return the offsets of one source, none for "-": it had no data.

    Raises UsageError for a source of another kind.
    """
    if source == b"-":
        return {}
    try:
        topics: dict[str, Any] = json.loads(source)
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in topics.items()
            if topic != STREAM_MEMBER
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise UsageError(
            f"{path}: a source of the stream is no log of topics: "
            f"{source[:80].decode(errors='replace')!r}"
        ) from None


def add_to(app: typer.Typer) -> None:
    """Register `checkpoint` with its commands."""
    group = typer.Typer(help="Show a stream's offsets, and turn them into a group's.")
    add_command(group, "show", show)
    add_command(group, "to-group", to_group)
    add_command(group, "from-group", from_group)
    app.add_typer(group, name="checkpoint")
