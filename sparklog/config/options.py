"""Options of a produce and of a consume: one row per option.

An option of Kafka's producer or of Spark's Kafka connector has the same name, default and meaning
here. Values are text, as everywhere in Spark. Names ignore case, and `_` may replace `.`, so that
`batch_size=65536` is an argument in Python. Options `storage.<NAME>` are settings of the storage
(sparklog.storage.settings).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from sparklog.config.keys import (
    INT_MAX,
    Bounds,
    ConfigKey,
    ConfigType,
    at_least,
    boolean,
    list_of,
    matching,
    one_of,
    partitioner,
)
from sparklog.errors import InvalidConfigError, InvalidOptionError
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED

STORAGE_PREFIX = "storage."

_ANY = Bounds("text", lambda _: True)
DURATION = r"([0-9]+)\s*(us|ms|s|m|min|h|d)?"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is text, or None: then an option that is not given is None.

    With `ignores_case` a value is read in lower case.
    """

    name: str
    type: ConfigType
    default: str | None
    bounds: Bounds
    doc: str
    ignores_case: bool = False

    def parse(self, value: object) -> Any:
        """Return the typed value.

        Raises InvalidOptionError, which names the option and the allowed values.
        """
        if isinstance(value, Collection) and not isinstance(value, str):
            raise InvalidOptionError(
                f"option {self.name} is a {type(value).__name__}: options are text, "
                "lists separated by commas, offsets and partitions as JSON (json.dumps)",
                option=self.name,
            )
        if self.ignores_case and isinstance(value, str):
            value = value.lower()
        key = ConfigKey(self.name, self.type, self.default or "", self.bounds, self.doc)
        try:
            return key.parse(value)
        except InvalidConfigError as error:
            raise InvalidOptionError(f"option {error}", option=self.name) from None


def _text(name: str, doc: str, default: str | None = None) -> Option:
    return Option(name, ConfigType.STRING, default, _ANY, doc)


def _choice(name: str, default: str, allowed: Sequence[str], doc: str) -> Option:
    return Option(name, ConfigType.STRING, default, one_of(*allowed), doc)


def _count(name: str, doc: str, *, minimum: int = 1) -> Option:
    return Option(name, ConfigType.LONG, None, at_least(minimum), doc)


def _time(name: str, doc: str) -> Option:
    integers = at_least(0)
    bounds = Bounds(f"milliseconds since 1970, {integers.text}", integers.accept)
    return Option(name, ConfigType.LONG, None, bounds, doc)


RECORD_COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
"""The columns of a consumed record, in the order of Spark's Kafka source."""

TOPIC = _text("topic", "Topic of every record; it wins over the column `topic`.")

PRODUCE_OPTIONS = (
    TOPIC,
    _choice(
        "compression.type",
        "none",
        ("none", "gzip", "snappy", "lz4", "zstd"),
        "Codec of the batches, unless the topic's compression.type names one.",
    ),
    Option(
        "batch.size",
        ConfigType.INT,
        "16384",
        at_least(0, INT_MAX),
        "The largest size of a batch before compression; a larger record has its own batch.",
    ),
    Option(
        "partitioner",
        ConfigType.STRING,
        None,
        partitioner(),
        "Chooses a partition where the column `partition` does not; default: the topic's.",
    ),
    Option(
        "segment.bytes",
        ConfigType.INT,
        None,
        at_least(14, INT_MAX),
        "The largest size of a segment, instead of the topic's segment.bytes; 14 or more.",
    ),
    _choice(
        "flush",
        "fsync",
        ("fsync", "none"),
        "fsync: durable before the answer; none: the operating system writes it out later.",
    ),
    _choice(
        "clustered",
        "auto",
        ("auto", "true", "false"),
        "Shuffle the rows by partition first; auto: only if there would be many files otherwise.",
    ),
    Option(
        "allowOffsetGaps",
        ConfigType.BOOLEAN,
        "false",
        boolean(),
        "Whether the column `offset` may leave offsets out, as a copy of a compacted topic does.",
    ),
    _text("txnAppId", "With txnVersion: names a write. Repeated, it is committed only once."),
    _count("txnVersion", "Number of the write; grows with each write of txnAppId.", minimum=0),
)

_OFFSETS = "JSON {topic: {partition or *: offset}}, -2 earliest, -1 latest, * all others"
_TIMES = "JSON {topic: {partition: milliseconds}}"

ISOLATION_LEVEL = _choice(
    "isolation.level",
    READ_UNCOMMITTED,
    (READ_UNCOMMITTED, READ_COMMITTED),
    "read_committed: stop before open transactions, leave out records of aborted ones.",
)

COLUMNS = Option(
    "columns",
    ConfigType.LIST,
    None,
    list_of(*RECORD_COLUMNS),
    "Columns to read, in this order; other columns are not decoded.",
)

CONSUME_OPTIONS = (
    _text("assign", "Partitions to read: JSON {topic: [partition, …]}."),
    _text("subscribe", "Topics to read, separated by commas."),
    _text("subscribePattern", "Topics to read: a regular expression found in their names."),
    _text(
        "startingOffsets",
        f"First offsets: earliest (a batch's default), latest (a stream's), committed (groupId's), "
        f"or {_OFFSETS}.",
    ),
    _text("endingOffsets", f"Offsets to stop before: latest (the default), or {_OFFSETS}."),
    _time("startingTimestamp", "Start at the first record from this time (ms) on."),
    _time("endingTimestamp", "Stop before the first record from this time (ms) on."),
    _text("startingOffsetsByTimestamp", f"startingTimestamp by partition: {_TIMES}."),
    _text("endingOffsetsByTimestamp", f"endingTimestamp by partition: {_TIMES}."),
    Option(
        "startingOffsetsByTimestampStrategy",
        ConfigType.STRING,
        "error",
        one_of("error", "latest"),
        "What to do when no record is at or after the starting time.",
        ignores_case=True,
    ),
    Option("includeHeaders", ConfigType.BOOLEAN, "false", boolean(), "Add the column `headers`."),
    COLUMNS,
    Option(
        "failOnDataLoss",
        ConfigType.BOOLEAN,
        "true",
        boolean(),
        "Whether offsets that retention removed are an error; false: skip them with a warning.",
    ),
    ISOLATION_LEVEL,
    _count("versionAsOf", "Read all topics as this commit left them (`sparklog log`).", minimum=0),
    _text("timestampAsOf", "The same as of a time: ms since 1970, or ISO (2013-07-04T12:00)."),
    _text("groupId", "The group of startingOffsets=committed; a stream also commits for it."),
    Option(
        "auto.offset.reset",
        ConfigType.STRING,
        None,
        one_of("earliest", "latest", "none"),
        "Where startingOffsets=committed begins without a commit; none: an error. "
        "Default: earliest in a batch, latest in a stream.",
    ),
    _count("minPartitions", "At least this many Spark partitions; splits the larger ranges."),
    _count("maxRecordsPerPartition", "At most this many offsets in one Spark partition."),
)

HISTORY_OPTIONS = (
    _choice(
        "history",
        "log",
        ("log", "auto", "table"),
        "Where records are read. log: the log. auto: the topic's table as far as it gives the same "
        "rows, the log for the rest. table: only the table, also below the log start.",
    ),
    Option(
        "ordered",
        ConfigType.BOOLEAN,
        "false",
        boolean(),
        "With history=auto or table: each partition in the order of its offsets, which costs a "
        "shuffle and a sort; by default the order is unspecified.",
    ),
)
"""Options of `sparklog.spark.consume` besides CONSUME_OPTIONS."""

STREAM_OPTIONS = (
    _count("maxOffsetsPerTrigger", "A micro-batch has about this many offsets at most."),
    _count("minOffsetsPerTrigger", "A micro-batch waits until there are this many offsets."),
    Option(
        "maxTriggerDelay",
        ConfigType.STRING,
        "15m",
        matching(DURATION, "a time such as 500ms, 90s, 15m, 2h or 1d (ms without a unit)"),
        "The longest wait for minOffsetsPerTrigger since the last micro-batch.",
        ignores_case=True,
    ),
)
"""Options of a streaming read besides CONSUME_OPTIONS."""
BATCH_ONLY = (
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("versionAsOf", "timestampAsOf"),
)
"""Options of a batch that a stream refuses: it has no end and reads no past."""

SOURCE_OPTIONS = (*CONSUME_OPTIONS, *STREAM_OPTIONS, *PRODUCE_OPTIONS)
"""Options of `format("sparklog")`, for reads and writes: a table in SQL has one set of options."""


_PLACES: Final = {
    "sparklog.spark.consume": HISTORY_OPTIONS,
    "reads in Spark": CONSUME_OPTIONS,
    "streaming reads in Spark": STREAM_OPTIONS,
    "writes in Spark": PRODUCE_OPTIONS,
}
"""Where an option is known; elsewhere the error for it says so."""


def storage_settings(given: Mapping[str, object]) -> dict[str, str]:
    """Return the options that begin with `storage.`, in any case, without this prefix."""
    return {
        name[len(STORAGE_PREFIX) :]: str(value)
        for name, value in given.items()
        if _is_storage_setting(name)
    }


def _is_storage_setting(name: str) -> bool:
    return name.lower().startswith(STORAGE_PREFIX)


def parse_options(
    options: Sequence[Option], given: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return (typed value by option name, storage settings by name).

    An option that is missing or None has its default value, or None if it has no default.
    Raises InvalidOptionError for an unknown option (it names the nearest one) and for a bad value.
    """
    known = {option.name.lower(): option for option in options}
    values = {
        option.name: None if option.default is None else option.parse(option.default)
        for option in options
    }
    for name, value in given.items():
        if _is_storage_setting(name):
            continue
        option = known.get(name.lower()) or known.get(name.lower().replace("_", "."))
        if option is None:
            raise InvalidOptionError(_unknown(name, options), option=name)
        if value is not None:
            values[option.name] = option.parse(value)
    return values, storage_settings(given)


def _unknown(name: str, options: Sequence[Option]) -> str:
    names = {option.name.lower(): option.name for option in options}
    dotted = name.lower().replace("_", ".")
    near = get_close_matches(dotted, names, n=1)
    hint = f"; did you mean {names[near[0]]}?" if near else ""
    for place, others in _PLACES.items():
        if dotted in (option.name.lower() for option in others):
            hint = f", which is for {place}"
    return f"unknown option {name}{hint} (known: {', '.join(sorted(names.values()))})"
