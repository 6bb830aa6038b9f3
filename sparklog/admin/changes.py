"""Changes of topics: pure functions of a topic's description, or of its image.

AdminClient and EachTopic make the same changes; the rules of both are here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sparklog.admin.places import whole
from sparklog.config import ConfigKey, ConfigType, TopicConfig, config_key
from sparklog.errors import (
    InvalidConfigError,
    InvalidOptionError,
    InvalidPartitionsError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    PolicyViolationError,
)
from sparklog.log.names import (
    INTERNAL_TOPICS,
    PARTITIONS_MAX,
    RESERVED_TOPICS,
    random_uuid,
    validate_topic_name,
)
from sparklog.metadata.state.edit import Done, PartitionState, TopicEdit
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.model import LATEST, TopicDescription


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `config` has Kafka's dotted keys: `{"retention.ms": "-1"}`."""

    name: str
    num_partitions: int = 1
    config: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InvalidConfigError for no mapping: Kafka's third argument is another one."""
        given: object = self.config
        if not isinstance(given, Mapping):
            raise InvalidConfigError(
                f"topic {self.name!r}: config is {given!r}, and must be a mapping of keys to "
                f"values; there is no replication factor, because the storage replicates"
            )


class OpType(StrEnum):
    """Kafka's AlterConfigOp.OpType. APPEND and SUBTRACT are for lists."""

    SET = "SET"
    DELETE = "DELETE"
    APPEND = "APPEND"
    SUBTRACT = "SUBTRACT"


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """A change of the config `name` of a topic; DELETE ignores `value`, and sets the default."""

    name: str
    value: object = None
    op: OpType = OpType.SET


def described(topic: NewTopic, random_bytes: bytes, now_ms: int) -> TopicDescription:
    """Return the description of a new topic; its id is made of 16 `random_bytes`.

    Raises InvalidTopicError, also for another object than a NewTopic; InvalidPartitionsError,
    InvalidConfigError.
    """
    given: object = topic
    if not isinstance(given, NewTopic):
        raise InvalidTopicError(f"{given!r} is no NewTopic: give a list such as [NewTopic('t')]")
    validate_topic_name(topic.name)
    if topic.name in RESERVED_TOPICS:
        reserved = ", ".join(sorted(RESERVED_TOPICS))
        raise InvalidTopicError(f"topic name {topic.name!r} is internal, as are {reserved}")
    count = _checked_count(topic.name, topic.num_partitions)
    config = TopicConfig.parse(topic.config)
    return TopicDescription(
        topic.name, random_uuid(random_bytes), count, dict(config.overrides), now_ms
    )


def _checked_count(name: str, given: int) -> int:
    count = whole(given, f"topic {name!r}, partitions")
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidPartitionsError(
            f"topic {name!r}: {count} partitions; a topic has 1 to {PARTITIONS_MAX}"
        )
    return count


def grown(topic: TopicDescription, count: int) -> TopicDescription:
    """Return a topic with more partitions. Raises InvalidPartitionsError."""
    if topic.name in INTERNAL_TOPICS:
        raise InvalidPartitionsError(
            f"topic {topic.name!r} keeps its {topic.num_partitions} partitions: their number says "
            f"where the offsets of a group are"
        )
    count = _checked_count(topic.name, count)
    if count <= topic.num_partitions:
        raise InvalidPartitionsError(
            f"topic {topic.name!r} has {topic.num_partitions} partitions: a count can only grow, "
            f"so {count} is not allowed"
        )
    return replace(topic, num_partitions=count)


def altered(topic: TopicDescription, ops: Iterable[AlterConfigOp]) -> TopicDescription:
    """Return a topic with changed configs.

    Raises InvalidConfigError, also for another object than an AlterConfigOp; InvalidOptionError for
    a config that is named twice.
    """
    ops = list(ops)
    given: Iterable[object] = ops
    for one in given:
        if not isinstance(one, AlterConfigOp):
            raise InvalidConfigError(
                f"topic {topic.name!r}: {one!r} is no AlterConfigOp: give a list such as "
                f"[AlterConfigOp('retention.ms', '-1')]"
            )
    check_named_once(topic.name, [op.name for op in ops])
    values: dict[str, object] = dict(topic.configs)
    for op in ops:
        key = config_key(op.name)
        match _op_type(op):
            case OpType.DELETE:
                values.pop(key.name, None)
            case OpType.SET:
                values[key.name] = op.value
            case _:
                values[key.name] = _list_edited(key, values.get(key.name, key.default), op)
    return replace(topic, configs=dict(TopicConfig.parse(values).overrides))


def check_named_once(topic: str, keys: Iterable[str]) -> None:
    """Raise InvalidOptionError for a config that one change names twice (ConfigAdminManager)."""
    if twice := [key for key, count in Counter(keys).items() if count > 1]:
        raise InvalidOptionError(
            f"topic {topic!r}: {twice[0]} is named twice in one change: allowed is once",
            option=twice[0],
        )


def _op_type(op: AlterConfigOp) -> OpType:
    try:
        return OpType(op.op)
    except ValueError:
        raise InvalidConfigError(
            f"{op.op!r} is no operation on a config; allowed: {', '.join(OpType)}", key=op.name
        ) from None


def _list_edited(key: ConfigKey, current: object, op: AlterConfigOp) -> str:
    if key.type is not ConfigType.LIST:
        raise InvalidConfigError(
            f"{op.op} is for lists: {key.name} is a {key.type.value}, which takes SET and DELETE",
            key=key.name,
        )
    values = [value.strip() for value in str(current).split(",") if value.strip()]
    edits = [value.strip() for value in str(op.value).split(",")]
    if op.op == OpType.SUBTRACT:
        return ",".join(value for value in values if value not in edits)
    return ",".join([*values, *(value for value in edits if value not in values)])


def check_deletable(topic: TopicDescription) -> None:
    """Raise PolicyViolationError for a topic whose cleanup.policy lacks "delete"."""
    if not TopicConfig.parse(topic.configs).is_deleted:
        raise PolicyViolationError(
            f"topic {topic.name!r}: records are deleted only where cleanup.policy has 'delete'"
        )


def start_offset(log: PartitionLog, wanted: int) -> int:
    """Return the log start offset after the records before offset `wanted` are deleted.

    -1 means the log end offset. An offset below the present log start changes nothing. Raises
    OffsetOutOfRangeError.
    """
    offset = log.log_end_offset if wanted == LATEST else wanted
    if not 0 <= offset <= log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"{log.name}: cannot delete records before {wanted}; allowed are 0 to "
            f"{log.log_end_offset}, and -1 for the log end offset"
        )
    return max(offset, log.log_start_offset)


def with_starts(topic: TopicImage, starts: Mapping[int, int]) -> TopicEdit | Done:
    """Return the edit that raises log start offsets, by partition, where they rise."""
    raised = {
        number: PartitionState(log_start_offset=start)
        for number, start in starts.items()
        if start > topic.partition(number).log_start_offset
    }
    return TopicEdit(partitions=raised) if raised else Done()
