"""`sparklog topic`: create, list, describe, alter, delete, undelete; kafka-topics' flags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparklog.cli.arguments import CommonArguments, add_command, one_topic
from sparklog.cli.completion import TopicArgument, TopicsArgument, topic_names
from sparklog.cli.damage import Damage
from sparklog.cli.output import print_json, print_table
from sparklog.clock import age_s
from sparklog.errors import InvalidOptionError

if TYPE_CHECKING:
    from sparklog.metadata.state.image import Image, TopicImage
    from sparklog.model import TopicDescription

Topic = Annotated[
    str | None,
    typer.Option(
        "--topic", help="The topic, as Kafka's tools take it.", autocompletion=topic_names
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="KEY=VALUE", help="Set a topic config; may be repeated."),
]


@dataclass(frozen=True, kw_only=True)
class CreateArguments(CommonArguments):
    """Options of `topic create`."""

    name: Annotated[str | None, typer.Argument(metavar="TOPIC", help="The new topic's name.")] = (
        None
    )
    topic: Annotated[str | None, typer.Option("--topic", help="The new topic's name.")] = None
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many partitions it has.")
    ] = 1
    config: Config = None
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing when the topic exists already.")
    ] = False
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check, and create nothing.")
    ] = False


def create(arguments: CreateArguments) -> None:
    """Create a topic; the first one makes the log dir."""
    from sparklog.admin import NewTopic
    from sparklog.config.pairs import pairs
    from sparklog.errors import TopicExistsError

    name = one_topic(arguments.name, arguments.topic)
    new = NewTopic(name, arguments.partitions, pairs(arguments.config or (), "--config"))
    try:
        (made,) = arguments.admin().create_topics([new], validate_only=arguments.validate_only)
    except TopicExistsError:
        if not arguments.if_not_exists:
            raise
        return
    verb = "Valid topic" if arguments.validate_only else "Created topic"
    arguments.tell(_as_json(made), f"{verb} {name}.")


@dataclass(frozen=True, kw_only=True)
class ListArguments(CommonArguments):
    """Options of `topic list`."""

    deleted: Annotated[
        bool,
        typer.Option("--deleted", help="The deleted topics that can be undeleted, with their ids."),
    ] = False


def list_topics(arguments: ListArguments) -> None:
    """List the topics, one name a line."""
    if arguments.deleted:
        _list_deleted(arguments)
        return
    for topic in arguments.catalog().topics().values():
        if arguments.is_json:
            print_json(_as_json(topic))
        else:
            print(topic.name)


def _list_deleted(arguments: ListArguments) -> None:
    for topic in arguments.admin().list_deleted_topics():
        if arguments.is_json:
            print_json(_as_json(topic) | {"deleted_ms": topic.deleted_ms})
        else:
            print(topic.name, topic.topic_id)


@dataclass(frozen=True, kw_only=True)
class DescribeArguments(CommonArguments):
    """Options of `topic describe`."""

    names: TopicsArgument = None
    topic: Topic = None
    all_configs: Annotated[
        bool, typer.Option("--all", "-a", help="Show configs that have their default, too.")
    ] = False


def describe(arguments: DescribeArguments) -> None:
    """Show partitions with their offsets, open transactions, and the configs that are set.

    A topic that is damaged, or lacks a file, is told on stderr; the others are shown, and the exit
    code is 1.
    """
    from sparklog.config import TopicConfig

    catalog = arguments.catalog()
    names = _names(arguments)
    topics = catalog.named(names) if names else list(catalog.topics().values())
    damage = Damage()
    image, sound = damage.sound(catalog, topics)
    for topic in sound:
        partitions = _partitions(topic, image.topics[topic.topic_id])
        opened = _opened(topic, image, catalog.clock.now_ms())
        entries = TopicConfig.parse(topic.configs).describe()
        configs = {e.name: e.value for e in entries if arguments.all_configs or not e.is_default}
        if arguments.is_json:
            rest = {"configs": configs, "partitions": partitions, "transactions": opened}
            print_json(_as_json(topic) | rest)
            continue
        title = f"{topic.name}  id {topic.topic_id}  partitions {topic.num_partitions}"
        shown = _shown(partitions)
        rows = [[row[name] for name in shown] for row in partitions]
        print_table(title, [name.replace("_", " ") for name in shown], rows)
        if opened:
            title = f"open transactions of {topic.name}"
            columns = [name.replace("_", " ") for name in opened[0]]
            print_table(title, columns, [list(one.values()) for one in opened])
        for name, value in configs.items():
            print(f"{name}={value}")
    damage.end()


def _opened(topic: "TopicDescription", image: "Image", now_ms: int) -> list[dict[str, Any]]:
    """Return the open transactions of a topic, and for how long each has been open."""
    from sparklog.metadata.state.open_transactions import opened_in

    logs = sorted(image.topics[topic.topic_id].partitions.items())
    return [
        {
            "partition": one.partition,
            "first_offset": one.first_offset,
            "producer_id": one.producer_id,
            "transactional_id": one.transactional_id,
            "open_for_s": age_s(one.since_ms, now_ms),
        }
        for _, log in logs
        for one in opened_in(topic.topic_id, log, image.transactional_ids)
    ]


_PARTITION_COLUMNS = (
    "partition",
    "log_start_offset",
    "last_stable_offset",
    "log_end_offset",
    "segments",
    "bytes",
)


def _shown(partitions: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the columns of the table: the last stable offset only where a transaction is open."""
    is_open = any(row["last_stable_offset"] < row["log_end_offset"] for row in partitions)
    return [name for name in _PARTITION_COLUMNS if is_open or name != "last_stable_offset"]


def _partitions(topic: "TopicDescription", image: "TopicImage") -> list[dict[str, int]]:
    rows = []
    for number in range(topic.num_partitions):
        log = image.partition(number)
        row = (
            number,
            log.log_start_offset,
            log.last_stable_offset,
            log.log_end_offset,
            len(log.live),
            log.live.by_offset.total_bytes,
        )
        rows.append(dict(zip(_PARTITION_COLUMNS, row, strict=True)))
    return rows


@dataclass(frozen=True, kw_only=True)
class AlterArguments(CommonArguments):
    """Options of `topic alter`."""

    name: TopicArgument = None
    topic: Topic = None
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="The new number; it can only grow.")
    ] = None
    config: Config = None
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="KEY", help="Set a config back to its default."),
    ] = None


def alter(arguments: AlterArguments) -> None:
    """Add partitions, set configs, set configs back to their defaults."""
    from sparklog.admin import AlterConfigOp, OpType
    from sparklog.config.pairs import pairs

    name = one_topic(arguments.name, arguments.topic)
    set_ops = [
        AlterConfigOp(key, value)
        for key, value in pairs(arguments.config or (), "--config").items()
    ]
    ops = set_ops + [AlterConfigOp(key, op=OpType.DELETE) for key in arguments.delete_config or ()]
    if not ops and arguments.partitions is None:
        raise InvalidOptionError(
            "nothing to alter: give --partitions, --config or --delete-config", option="config"
        )
    admin = arguments.admin()
    altered: Sequence[TopicDescription] = ()
    if arguments.partitions is not None:
        if ops:  # partitions cannot be taken back, so wrong configs are refused first
            admin.incremental_alter_configs({name: ops}, validate_only=True)
        altered = admin.create_partitions({name: arguments.partitions})
    if ops:
        altered = admin.incremental_alter_configs({name: ops})
    arguments.tell(_as_json(altered[0]), f"Altered topic {name}.")


@dataclass(frozen=True, kw_only=True)
class DeleteArguments(CommonArguments):
    """Options of `topic delete`."""

    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="The topics.", autocompletion=topic_names),
    ] = None
    topic: Topic = None
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Leave out topics that do not exist.")
    ] = False


def delete(arguments: DeleteArguments) -> None:
    """Delete topics: their names are free at once, the files stay until vacuum runs."""
    names = _names(arguments)
    if not names:
        raise InvalidOptionError("no topic: give its name", option="topic")
    admin = arguments.admin()
    if arguments.if_exists:
        existing = set(admin.list_topics())
        names = [name for name in names if name in existing]
    admin.delete_topics(names)
    for name in names:
        arguments.tell({"name": name, "deleted": True}, f"Deleted topic {name}.")


@dataclass(frozen=True, kw_only=True)
class UndeleteArguments(CommonArguments):
    """Options of `topic undelete`."""

    name: Annotated[str | None, typer.Argument(metavar="TOPIC", help="The deleted topic.")] = None
    topic: Annotated[str | None, typer.Option("--topic", help="The deleted topic.")] = None
    topic_id: Annotated[
        str | None,
        typer.Option("--topic-id", help="The topic's id; by default the one deleted last."),
    ] = None


def undelete(arguments: UndeleteArguments) -> None:
    """Bring back a deleted topic that vacuum has not erased yet, with its records and configs."""
    name = one_topic(arguments.name, arguments.topic)
    back = arguments.admin().undelete_topic(name, topic_id=arguments.topic_id)
    arguments.tell(_as_json(back), f"Undeleted topic {name}.")


def _names(arguments: DescribeArguments | DeleteArguments) -> list[str]:
    """Return the topics given by position and as --topic, each once."""
    given = [*(arguments.names or ()), *([arguments.topic] if arguments.topic else ())]
    return list(dict.fromkeys(given))


def _as_json(topic: "TopicDescription") -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": topic.num_partitions,
        "created_ms": topic.created_ms,
        "configs": topic.configs,
    }


def add_to(app: typer.Typer) -> None:
    """Register `topic` with its commands."""
    group = typer.Typer(help="Create, list, describe, alter, delete and undelete topics.")
    add_command(group, "create", create)
    add_command(group, "list", list_topics)
    add_command(group, "describe", describe)
    add_command(group, "alter", alter)
    add_command(group, "delete", delete)
    add_command(group, "undelete", undelete)
    app.add_typer(group, name="topic")
