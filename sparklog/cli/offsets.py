"""`sparklog get-offsets` and `sparklog delete-records`, as Kafka's tools of these names."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sparklog.cli.arguments import (
    CommonArguments,
    Isolation,
    IsolationOption,
    PastArguments,
    numbers,
    one_topic,
)
from sparklog.cli.completion import TopicArgument, TopicsArgument, topic_names
from sparklog.cli.damage import Damage
from sparklog.cli.output import print_json
from sparklog.cli.positions import parse_list_time
from sparklog.errors import InvalidOptionError, UsageError
from sparklog.model import EARLIEST, LATEST, TimestampOffset, TopicPartition, offsets_json

_PATTERN: Final = re.compile(r"(?P<topic>[^:,]*)(:((?P<one>\d+)|(?P<low>\d*)-(?P<high>\d*))?)?")
"""A topic, or nothing for any; then one partition, or a range without its end."""

_PLAIN_MAX: Final = 16
"""Up to this many partitions, a time is found sooner without compiled kernels."""

IsWanted = Callable[[str, int], bool]


@dataclass(frozen=True, kw_only=True)
class GetOffsetsArguments(PastArguments):
    """Options of `get-offsets`."""

    names: TopicsArgument = None
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", help="The topic, or a regular expression.", autocompletion=topic_names
        ),
    ] = None
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partitions", "-p", metavar="N,N", help="These partitions only."),
    ] = None
    topic_partitions: Annotated[
        str | None,
        typer.Option(
            "--topic-partitions",
            metavar="PATTERNS",
            help="topic1:1,topic2:0-3,topic3,topic4:5-,:-3 (ranges without their end).",
        ),
    ] = None
    time: Annotated[
        str,
        typer.Option(
            "--time",
            metavar="TIME",
            help="-1 or latest, -2 or earliest, -3 or max-timestamp; or a time: ms since 1970, "
            "ISO, or -48h. Partitions without a record from then on are left out.",
        ),
    ] = "latest"
    spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="One JSON object, as Spark's startingOffsets and endingOffsets take it.",
        ),
    ] = False
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED


def get_offsets(arguments: GetOffsetsArguments) -> None:
    """Print topic:partition:offset, for the end, the start or a time.

    With --spark a partition without a record from that time on is given its log end offset: Spark
    would begin at the earliest offset of a partition that is not named. Damaged topics and
    partitions are told on stderr; the exit code is then 1, and --spark prints nothing.
    """
    from sparklog.log_reader import TopicReader
    from sparklog.metadata.catalog import topic_of
    from sparklog.record.kernels import run_plain

    is_wanted = _filter(arguments)
    catalog = arguments.catalog_as_of()
    catalog.named(arguments.names or ())
    timestamp = parse_list_time(arguments.time, catalog.clock.now_ms())
    topics = catalog.topics()
    places = [
        TopicPartition(topic.name, partition)
        for topic in topics.values()
        for partition in range(topic.num_partitions)
        if is_wanted(topic.name, partition)
    ]
    if not places:
        raise UsageError("no topic or partition matches the given names")
    if timestamp not in (LATEST, EARLIEST) and len(places) <= _PLAIN_MAX:
        run_plain()
    found: dict[TopicPartition, int] = {}
    damage = Damage()
    names = dict.fromkeys(place.topic for place in places)
    image, sound = damage.sound(catalog, [topics[name] for name in names])
    readers = {
        topic.name: TopicReader(catalog.files, topic, topic_of(image, topic)) for topic in sound
    }
    for place in places:
        reader = readers.get(place.topic)
        if reader is None:
            continue
        with damage.told_of(str(place)):
            answer = reader.list_offset(place.partition, timestamp, arguments.isolation)
            if arguments.spark:
                end = reader.partition(place.partition).end_offset(arguments.isolation)
                found[place] = end if answer.offset < 0 else answer.offset
            elif answer.offset >= 0:
                _print_offset(arguments, place, answer)
    damage.end()
    if arguments.spark:
        print_json(offsets_json(found))


def _print_offset(
    arguments: CommonArguments, place: TopicPartition, answer: TimestampOffset
) -> None:
    if not arguments.is_json:
        print(f"{place.topic}:{place.partition}:{answer.offset}")
        return
    time = None if answer.timestamp < 0 else answer.timestamp
    print_json(place._asdict() | {"offset": answer.offset, "timestamp": time})


def _filter(arguments: GetOffsetsArguments) -> IsWanted:
    names, topic = set(arguments.names or ()), arguments.topic
    chosen = set(numbers(arguments.partitions or (), "--partitions"))
    if arguments.topic_partitions is not None:
        if names or topic or chosen:
            raise InvalidOptionError(
                "--topic-partitions goes without topics and without --partitions",
                option="topic-partitions",
            )
        return _any_of(arguments.topic_partitions)
    is_topic = _topic_test(topic) if topic else None

    def is_wanted(name: str, partition: int) -> bool:
        is_named = name in names or (is_topic(name) if is_topic else not names)
        return is_named and (not chosen or partition in chosen)

    return is_wanted


def _topic_test(pattern: str) -> Callable[[str], bool]:
    """Return a test of names by a regular expression, `,` as `|` (TopicFilter.IncludeList)."""
    try:
        compiled = re.compile(pattern.replace(",", "|"))
    except re.error as error:
        raise InvalidOptionError(f"--topic {pattern!r}: {error}", option="topic") from None
    return lambda name: compiled.fullmatch(name) is not None


def _any_of(patterns: str) -> IsWanted:
    tests = [_one_pattern(pattern) for pattern in patterns.split(",")]
    return lambda name, partition: any(test(name, partition) for test in tests)


def _one_pattern(text: str) -> IsWanted:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise InvalidOptionError(
            f"--topic-partitions {text!r}: allowed are topic, topic:1, topic:0-3, topic:5-, :-3",
            option="topic-partitions",
        )
    is_topic = _topic_test(match["topic"] or ".*")
    low = int(match["one"] or match["low"] or 0)
    high = low + 1 if match["one"] else int(match["high"]) if match["high"] else None
    return lambda name, p: is_topic(name) and p >= low and (high is None or p < high)


@dataclass(frozen=True, kw_only=True)
class DeleteRecordsArguments(CommonArguments):
    """Options of `delete-records`."""

    name: TopicArgument = None
    topic: Annotated[
        str | None, typer.Option("--topic", help="The topic.", autocompletion=topic_names)
    ] = None
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", "--partitions", "-p", metavar="N,N", help="The partitions."),
    ] = None
    before: Annotated[
        int | None,
        typer.Option(
            "--before", "--offset", metavar="N", help="The new log start offset; -1: the end."
        ),
    ] = None
    offset_json_file: Annotated[
        Path | None,
        typer.Option(
            "--offset-json-file",
            help='{"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}',
        ),
    ] = None


def delete_records(arguments: DeleteRecordsArguments) -> None:
    """Make records below an offset unreadable: raise the log start offset."""
    if arguments.offset_json_file is not None:
        named = arguments.name or arguments.topic or arguments.partition
        if named or arguments.before is not None:
            raise InvalidOptionError(
                "--offset-json-file goes without a topic, --partition and --before",
                option="offset-json-file",
            )
        before = _from_file(arguments.offset_json_file)
    else:
        before = _from_options(arguments)
    for place, offset in arguments.admin().delete_records(before).items():
        if arguments.is_json:
            row = {"topic": place.topic, "partition": place.partition, "low_watermark": offset}
            print_json(row)
        else:
            print(f"partition: {place}\tlow_watermark: {offset}")


def _from_options(arguments: DeleteRecordsArguments) -> dict[TopicPartition, int]:
    topic = one_topic(arguments.name, arguments.topic)
    if not arguments.partition or arguments.before is None:
        raise InvalidOptionError(
            "delete-records takes --partition and --before, or --offset-json-file",
            option="partition",
        )
    chosen = numbers(arguments.partition, "--partition")
    return {TopicPartition(topic, partition): arguments.before for partition in chosen}


def _from_file(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets in a file of kafka-delete-records (DeleteRecordsCommand).

    It has each partition once, and version 1 or none. Raises UsageError.
    """
    try:
        content = json.loads(path.read_bytes())
        return _unique(_entries(content))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: {type(error).__name__} {error}; allowed is "
            '{"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}'
        ) from None


def _entries(content: Any) -> Iterable[tuple[TopicPartition, int]]:
    if not isinstance(content, dict):
        raise TypeError("it is no JSON object")
    if content.get("version", 1) != 1:
        raise ValueError(f"version {content['version']}")
    for entry in content["partitions"]:
        place = TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        yield place, _field(entry, "offset", int)


def _field(entry: Mapping[str, Any], name: str, kind: type) -> Any:
    value = entry[name]
    if type(value) is not kind:
        raise TypeError(f"{name} {value!r} is no {kind.__name__}")
    return value


def _unique(entries: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for place, offset in entries:
        if place in found:
            raise ValueError(f"{place} twice")
        found[place] = offset
    return found
