"""The connector's options for topics, partitions, starts and ends.

    assign                 {"topic": [0, 1]}
    …Offsets               earliest | latest | {"topic": {"0": 23, "*": -2}} | {"topic": "earliest"}
    …OffsetsByTimestamp    {"topic": {"0": 1700000000000}}

-2 is earliest and -1 latest, as in the connector. Beyond the connector, the JSON may name only some
partitions: the others have the bound of "*", or else keep the default. It may also give "earliest"
or "latest" for a whole topic. Offsets from a stream's progress are taken as they are: their members
that are no topics are left out (sparklog.spark.reading.position, sparklog.spark.reading.waiting).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

from sparklog.errors import InvalidOptionError, OffsetOutOfRangeError
from sparklog.model import EARLIEST, LATEST, STREAM_MEMBER, TopicPartition, partition_number
from sparklog.spark.reading.waiting import WAITING

OTHERS: Final = "*"
"""All partitions of a topic that its offsets do not name."""
TOLD_MAX: Final = 1_000
"""The most characters of an option that an error repeats."""
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a partition's range begins or ends: an offset (or -2, -1), or a time in ms."""

    offset: int = LATEST
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """A bound for every partition: of named partitions, of whole topics, and the default."""

    default: Bound
    partitions: Mapping[TopicPartition, Bound]
    topics: Mapping[str, Bound]

    def of(self, partition: TopicPartition) -> Bound:
        """Return a partition's bound."""
        by_topic = self.topics.get(partition.topic, self.default)
        return self.partitions.get(partition, by_topic)


def parse_bounds(options: Mapping[str, Any], side: str, *, streaming: bool = False) -> Bounds:
    """Return the bounds that options ask for; `side` is "starting" or "ending".

    A time for all partitions wins over times by partition, and these win over offsets (the
    connector's order). A partition that no option names starts at the earliest offset, in a stream
    at the latest. Raises InvalidOptionError naming the option.
    """
    time = options[f"{side}Timestamp"]
    if time is not None:
        return Bounds(Bound(timestamp=time), {}, {})
    default = Bound(EARLIEST if side == "starting" and not streaming else LATEST)
    name = f"{side}OffsetsByTimestamp"
    if options[name] is not None:
        partitions, topics = _parse(name, options[name])
        times = {key: Bound(timestamp=_not_negative(name, ms)) for key, ms in partitions.items()}
        if topics:
            raise InvalidOptionError(
                f"option {name}: takes times by partition, not {topics}", option=name
            )
        return Bounds(default, times, {})
    name = f"{side}Offsets"
    if options[name] is None:
        return Bounds(default, {}, {})
    text = options[name].strip()
    if text.lower() in _WORDS:
        bounds = Bounds(Bound(_WORDS[text.lower()]), {}, {})
    else:
        partitions, topics = _parse(name, text)
        bounds = Bounds(
            default,
            {key: Bound(offset) for key, offset in partitions.items()},
            {topic: Bound(offset) for topic, offset in topics.items()},
        )
    if not streaming:
        _refuse_backwards(name, bounds, LATEST if side == "starting" else EARLIEST)
    return bounds


def check_order(key: TopicPartition, start: tuple[Bound, int], end: tuple[Bound, int]) -> None:
    """Refuse a range of a partition that ends before it begins; each bound comes with its offset.

    The connector's RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET, and the same for times, even if
    no record lies between them. Raises OffsetOutOfRangeError.
    """
    first_ms, last_ms = start[0].timestamp, end[0].timestamp
    if first_ms is not None and last_ms is not None and first_ms > last_ms:
        raise OffsetOutOfRangeError(
            f"{key}: the starting time {first_ms} is after the ending time {last_ms}"
        )
    if start[1] > end[1]:
        raise OffsetOutOfRangeError(
            f"{key}: the starting offset {start[1]} is above the ending offset {end[1]}"
        )


def _refuse_backwards(name: str, bounds: Bounds, forbidden: int) -> None:
    """Refuse a batch that starts at the end or ends at the start: it would always be empty."""
    given = [bounds.default, *bounds.partitions.values(), *bounds.topics.values()]
    if any(bound.timestamp is None and bound.offset == forbidden for bound in given):
        word = "latest" if forbidden == LATEST else "earliest"
        raise InvalidOptionError(
            f"option {name}: {word} ({forbidden}) is not allowed in a batch read, which would be "
            f"empty",
            option=name,
        )


def _parse(name: str, text: str) -> tuple[dict[TopicPartition, int], dict[str, int]]:
    partitions: dict[TopicPartition, int] = {}
    topics: dict[str, int] = {}
    for topic, value in _json_object(name, text).items():
        if topic in (STREAM_MEMBER, WAITING):
            continue
        if isinstance(value, str) and value.lower() in _WORDS:
            topics[topic] = _WORDS[value.lower()]
        elif isinstance(value, dict):
            for partition, offset in value.items():
                if partition == OTHERS:
                    topics[topic] = _integer(name, offset)
                    continue
                key = TopicPartition(topic, _partition(name, partition))
                if key in partitions:  # as "0" and "00"
                    _refuse(name, f"{key} is there twice")
                partitions[key] = _integer(name, offset)
        else:
            _refuse(name, f"topic {topic!r} has {value!r}")
    return partitions, topics


def parse_assign(text: str) -> list[TopicPartition]:
    """Return the partitions that the option `assign` names, sorted."""
    wanted = set()
    for topic, partitions in _json_object("assign", text).items():
        if not isinstance(partitions, list):
            _refuse("assign", f"topic {topic!r} has {partitions!r}")
        wanted |= {TopicPartition(topic, _partition("assign", number)) for number in partitions}
    return sorted(wanted)


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=partial(_each_once, name))
    except (ValueError, RecursionError) as error:  # ValueError: an integer of 4,300 digits, too
        _refuse(name, f"{text[:TOLD_MAX]!r} is no JSON ({error})")
    if not isinstance(value, dict):
        _refuse(name, f"{text[:TOLD_MAX]!r} is no JSON object")
    return dict(value)


def _each_once(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; refuse a member that is there twice.

    If the last one counted, as in the connector, partitions that only the first one names would
    silently begin at the default.
    """
    found: dict[str, Any] = {}
    for member, value in pairs:
        if member in found:
            _refuse(name, f"{member[:TOLD_MAX]!r} is there twice")
        found[member] = value
    return found


def _partition(name: str, value: Any) -> int:
    number = partition_number(value)
    if number is None:
        _refuse(name, f"{str(value)[:TOLD_MAX]!r} is no partition")
    return number


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < EARLIEST:
        _refuse(name, f"{value!r} is neither an offset nor -1 (latest) nor -2 (earliest)")
    return int(value)


def _not_negative(name: str, value: int) -> int:
    if value < 0:
        _refuse(name, f"{value} is no time")
    return value


_EXAMPLES: Final = {
    "assign": '{"flights": [0, 1]}',
    "startingOffsets": 'earliest, {"flights": {"0": 23, "1": -2}} or {"flights": "earliest"}',
    "endingOffsets": 'latest, {"flights": {"0": 23, "1": -1}} or {"flights": "latest"}',
    "startingOffsetsByTimestamp": '{"flights": {"0": 1372896000000}}',
    "endingOffsetsByTimestamp": '{"flights": {"0": 1372896000000}}',
}


def _refuse(name: str, problem: str) -> NoReturn:
    raise InvalidOptionError(
        f"option {name}: {problem}; expected e.g. {_EXAMPLES[name]}", option=name
    )
