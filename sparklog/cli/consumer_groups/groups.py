"""`sparklog groups`: what kafka-consumer-groups does, on a log dir and without a gateway."""

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sparklog.cli.arguments import CommonArguments, add_command, chosen, numbers, one_name
from sparklog.cli.completion import topic_names
from sparklog.cli.output import print_columns, print_json, warn
from sparklog.coordinator.lag_state import LEAST, LagState, group_state
from sparklog.errors import InvalidOptionError, SparklogWarning, UsageError
from sparklog.model import TopicPartition

if TYPE_CHECKING:
    from sparklog.admin import AdminClient, ConsumerGroupDescription, PartitionLag

_TOPIC: Final = re.compile(r"([a-zA-Z0-9._-]+)(?::(\d[\d,]*))?", re.ASCII)

STATES: Final = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    *("Assigning", "Reconciling"),
)
"""Kafka's GroupState; the last two are of groups of the type `consumer`."""
TYPES: Final = ("classic", "consumer")

TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:N,N]",
        help="A topic, or partitions of it; may be repeated.",
        autocompletion=topic_names,
    ),
]


@dataclass(frozen=True, kw_only=True)
class GroupsArguments(CommonArguments):
    """Options of commands for several groups."""

    names: Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="The groups.")] = None
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group; may be repeated.")
    ] = None
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups.")] = False

    def group_ids(self, admin: "AdminClient") -> list[str]:
        """Return the groups, each once. Raises InvalidOptionError for none."""
        named = [*(self.names or ()), *(self.group or ())]
        if self.all_groups == bool(named):
            raise InvalidOptionError("give groups, or --all-groups", option="group")
        if self.all_groups:
            return [one.group_id for one in admin.list_consumer_groups()]
        return list(dict.fromkeys(named))


def of_present_topics(
    admin: "AdminClient", places: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions that exist, in order; warn of offsets of partitions that are gone."""
    counts = {topic.name: topic.num_partitions for topic in admin.describe_topics()}
    found = [place for place in places if place.partition < counts.get(place.topic, 0)]
    for name in sorted({place.topic for place in set(places) - set(found)}):
        problem = f"topic {name!r}: offsets of partitions that do not exist here are left out"
        warnings.warn(problem, SparklogWarning, stacklevel=2)
    return found


def partitions_named(
    admin: "AdminClient", texts: Iterable[str], known: Iterable[TopicPartition] = ()
) -> list[TopicPartition]:
    """Return the partitions that `--topic` names, sorted.

    A topic without numbers names its partitions in `known`; their topic may be deleted. If `known`
    has none of them, it names all partitions of the topic. Raises InvalidOptionError,
    UnknownTopicError.
    """
    found: set[TopicPartition] = set()
    for text in texts:
        match = _TOPIC.fullmatch(text)
        if match is None:
            raise InvalidOptionError(
                f"--topic {text!r}: allowed are a topic, and topic:0,1", option="topic"
            )
        if match[2]:
            found |= {TopicPartition(match[1], one) for one in numbers([match[2]], "--topic")}
            continue
        committed = [place for place in known if place.topic == match[1]]
        if committed:
            found |= set(committed)
        else:
            [topic] = admin.describe_topics([match[1]])
            found |= {TopicPartition(topic.name, one) for one in range(topic.num_partitions)}
    return sorted(found)


# ------------------------------------------------------------------------------------------- list


@dataclass(frozen=True, kw_only=True)
class ListArguments(CommonArguments):
    """Options of `groups list`."""

    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATES", help="Groups in these states: Stable,Empty."),
    ] = None
    type: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPES", help="Groups of these types: classic,consumer."),
    ] = None
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With types and states.")] = False


def list_groups(arguments: ListArguments) -> None:
    """List the consumer groups."""
    found = arguments.admin_of_log_dir().list_consumer_groups(
        states=chosen(arguments.state, STATES, "--state"),
        types=chosen(arguments.type, TYPES, "--type"),
    )
    if arguments.is_json:
        for one in found:
            print_json(
                {
                    "group": one.group_id,
                    "type": one.type,
                    "state": one.state,
                    "is_simple": one.is_simple,
                }
            )
    elif arguments.verbose:
        print_columns(
            ["GROUP", "TYPE", "STATE"], [(one.group_id, one.type, one.state) for one in found]
        )
    else:
        for one in found:
            print(one.group_id)


# --------------------------------------------------------------------------------------- describe


@dataclass(frozen=True, kw_only=True)
class DescribeArguments(GroupsArguments):
    """Options of `groups describe`."""

    offsets: Annotated[
        bool, typer.Option("--offsets", help="Offsets and lag, as without an option.")
    ] = False
    members: Annotated[
        bool, typer.Option("--members", help="The members, and how many partitions each reads.")
    ] = False
    state: Annotated[bool, typer.Option("--state", help="State, assignor, members, lag state.")] = (
        False
    )
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="With leader epochs, or the members' partitions."),
    ] = False


def describe(arguments: DescribeArguments) -> None:
    """Show the committed offsets of groups, and their lag in records and in seconds.

    LAG-STATE is Burrow's state of the lag: OK, WARN, STOP, STALL, REWIND; of a group OK, WARN, ERR.
    It follows from the last commits; `-` if there is a lag and fewer than two commits. Members are
    shown as in the log: one that was killed is shown until its coordinator writes that it has left.
    """
    if arguments.offsets + arguments.members + arguments.state > 1:
        raise InvalidOptionError("give one of --offsets, --members, --state", option="offsets")
    admin = arguments.admin_of_log_dir()
    group_ids = arguments.group_ids(admin)
    if arguments.members:
        for one in admin.describe_consumer_groups(group_ids):
            _show_members(arguments, one)
        return
    found = admin.consumer_group_lags(group_ids)
    if arguments.state:
        for one in admin.describe_consumer_groups(group_ids):
            _show_state(arguments, one, group_state(lag.state for lag in found[one.group_id]))
        return
    for group_id, lags in found.items():
        _show_offsets(arguments, group_id, lags)
    if not (arguments.is_json or arguments.quiet):
        _tell_windows(found)


def _tell_windows(found: Mapping[str, "Sequence[PartitionLag]"]) -> None:
    """Warn of the groups that have partitions with too few commits for a state."""
    told = [name for name, lags in found.items() if any(one.lag and not one.state for one in lags)]
    if told:
        warn(
            f"LAG-STATE is unknown for partitions of {', '.join(told)}: "
            f"the log has fewer than {LEAST} commits of them"
        )


def _show_offsets(
    arguments: DescribeArguments, group_id: str, lags: "Sequence[PartitionLag]"
) -> None:
    if arguments.is_json:
        for lag in lags:
            print_json(_offsets_row(group_id, lag))
        return
    epoch = ["LEADER-EPOCH"] if arguments.verbose else []
    columns = ["GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    columns += ["CONSUMER-ID", "HOST", "CLIENT-ID", "LAG-SECONDS", "LAG-STATE"]
    rows = [
        (
            group_id,
            *lag.partition,
            *([lag.leader_epoch] if arguments.verbose else []),
            lag.current_offset,
            lag.log_end_offset,
            lag.lag,
            lag.member_id,
            lag.host,
            lag.client_id,
            lag.lag_seconds,
            lag.state,
        )
        for lag in lags
    ]
    print_columns(columns, rows)


def _offsets_row(group_id: str, lag: "PartitionLag") -> dict[str, Any]:
    row = lag._asdict()
    del row["partition"], row["lag_ms"], row["state"]
    told = {"lag_seconds": lag.lag_seconds, "lag_state": lag.state}
    return {"group": group_id, **lag.partition._asdict(), **row, **told}


def _show_members(arguments: DescribeArguments, group: "ConsumerGroupDescription") -> None:
    if arguments.is_json:
        for one in group.members:
            row = {
                "group": group.group_id,
                "member_id": one.member_id,
                "group_instance_id": one.group_instance_id,
                "host": one.host,
                "client_id": one.client_id,
                "partitions": [str(place) for place in one.partitions],
            }
            print_json(row)
        return
    has_static = any(one.group_instance_id for one in group.members)
    instance = ["GROUP-INSTANCE-ID"] if has_static else []
    columns = ["GROUP", "CONSUMER-ID", *instance, "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [
        (
            group.group_id,
            one.member_id,
            *([one.group_instance_id] if has_static else []),
            one.host,
            one.client_id,
            len(one.partitions),
            *([_assignment(one.partitions)] if arguments.verbose else []),
        )
        for one in group.members
    ]
    print_columns([*columns, *(["ASSIGNMENT"] if arguments.verbose else [])], rows)


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    """Return partitions as kafka-consumer-groups prints them: topic(0,1),other(2)."""
    topics: dict[str, list[str]] = {}
    for place in sorted(partitions):
        topics.setdefault(place.topic, []).append(str(place.partition))
    return ",".join(f"{topic}({','.join(found)})" for topic, found in topics.items()) or "-"


def _show_state(
    arguments: DescribeArguments, group: "ConsumerGroupDescription", lag_state: LagState | None
) -> None:
    if arguments.is_json:
        row = {
            "group": group.group_id,
            "type": group.type,
            "assignment_strategy": group.partition_assignor,
            "state": group.state,
            "members": len(group.members),
            "lag_state": lag_state,
        }
        print_json(row)
        return
    strategy = group.partition_assignor or None
    print_columns(
        ["GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "LAG-STATE"],
        [(group.group_id, strategy, group.state, len(group.members), lag_state)],
    )


# ----------------------------------------------------------------------------------------- delete


def delete(arguments: GroupsArguments) -> None:
    """Delete groups without members, and their offsets."""
    admin = arguments.admin_of_log_dir()
    group_ids = arguments.group_ids(admin)
    admin.describe_consumer_groups(group_ids)  # if one does not exist, none is deleted
    for one in group_ids:
        admin.delete_consumer_groups([one])
        arguments.tell({"group": one, "deleted": True}, f"Deleted group {one}.")


@dataclass(frozen=True, kw_only=True)
class DeleteOffsetsArguments(CommonArguments):
    """Options of `groups delete-offsets`."""

    name: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")] = None
    group: Annotated[str | None, typer.Option("--group", help="The group.")] = None
    topic: TopicsOption = None


def delete_offsets(arguments: DeleteOffsetsArguments) -> None:
    """Delete offsets of a group without members."""
    group_id = one_name(arguments.name, arguments.group, "group")
    if not arguments.topic:
        raise InvalidOptionError("give --topic", option="topic")
    admin = arguments.admin_of_log_dir()
    admin.describe_consumer_groups([group_id])
    known = admin.list_consumer_group_offsets(group_id)
    places = [place for place in partitions_named(admin, arguments.topic, known) if place in known]
    if not places:
        raise UsageError(
            f"group {group_id!r} has committed nothing of {', '.join(arguments.topic)}"
        )
    admin.delete_consumer_group_offsets(group_id, places)
    if arguments.is_json:
        for place in places:
            print_json({"group": group_id, **place._asdict(), "deleted": True})
    else:
        rows = [(place.topic, place.partition, "Successful") for place in places]
        print_columns(["TOPIC", "PARTITION", "STATUS"], rows)


def add_to(app: typer.Typer) -> None:
    """Register `groups` with its commands."""
    from sparklog.cli.consumer_groups.reset_offsets import reset_offsets

    group = typer.Typer(help="Show and move the offsets of consumer groups, without a gateway.")
    add_command(group, "list", list_groups)
    add_command(group, "describe", describe)
    add_command(group, "reset-offsets", reset_offsets)
    add_command(group, "delete-offsets", delete_offsets)
    add_command(group, "delete", delete)
    app.add_typer(group, name="groups")
