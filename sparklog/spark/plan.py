"""From options to offset ranges: what a batch read will read, decided once."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparklog.errors import (
    InvalidOptionError,
    OffsetOutOfRangeError,
    SparklogWarning,
    UnknownTopicError,
)
from sparklog.log_reader import EARLIEST, LATEST, Slice, TopicReader
from sparklog.manifest.catalog import Catalog
from sparklog.model import UNKNOWN_OFFSET, TopicPartition
from sparklog.spark.offsets import Bound, parse_assign, parse_bounds
from sparklog.spark.splits import split_ranges

_SELECTORS = ("assign", "subscribe", "subscribePattern")


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The offsets [start, end) of a partition, of the topic that has that id."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets in the range, gaps included."""
        return self.end - self.start


def plan_read(catalog: Catalog, options: Mapping[str, Any]) -> list[ReadRange]:
    """Return the ranges that options (parsed CONSUME_OPTIONS) ask for; empty ranges are left out.

    Raises InvalidOptionError, UnknownTopicError, OffsetOutOfRangeError (offsets that retention has
    removed or that do not exist yet, a start after its end, no record at a starting time).
    """
    wanted = _selected(catalog, options)
    starting, ending = parse_bounds(options, "starting"), parse_bounds(options, "ending")
    named = {*starting.partitions, *ending.partitions} - set(wanted)
    if named:
        raise UnknownTopicError(
            f"offsets are given for {', '.join(map(str, sorted(named)))}, which the read does not "
            f"include"
        )
    readers = {name: TopicReader.open(catalog, name) for name in {key.topic for key in wanted}}
    ranges = [
        _range(readers[key.topic], key, starting.of(key), ending.of(key), options) for key in wanted
    ]
    return split_ranges(
        [one for one in ranges if one.size],
        options["minPartitions"],
        options["maxRecordsPerPartition"],
    )


def _selected(catalog: Catalog, options: Mapping[str, Any]) -> list[TopicPartition]:
    given = [name for name in _SELECTORS if options[name] is not None]
    if len(given) != 1:
        raise InvalidOptionError(
            f"give one of the options assign, subscribe and subscribePattern, not {given or 'none'}"
        )
    if given == ["assign"]:
        partitions = parse_assign(options["assign"])
        for key in partitions:
            catalog.check_partition(catalog.topic(key.topic), key.partition)
        return partitions
    topics = [catalog.topic(name) for name in _topic_names(catalog, options)]
    return [
        TopicPartition(topic.name, partition)
        for topic in topics
        for partition in range(topic.num_partitions)
    ]


def _topic_names(catalog: Catalog, options: Mapping[str, Any]) -> list[str]:
    if options["subscribe"] is not None:
        names = sorted({name.strip() for name in options["subscribe"].split(",")} - {""})
        if not names:
            raise InvalidOptionError("option subscribe: no topics to read", option="subscribe")
        return names
    try:
        pattern = re.compile(options["subscribePattern"])
    except re.error as error:
        raise InvalidOptionError(
            f"option subscribePattern: {options['subscribePattern']!r} is no regular expression: "
            f"{error}",
            option="subscribePattern",
        ) from None
    return [name for name in catalog.topics() if pattern.search(name)]


def _range(
    reader: TopicReader,
    key: TopicPartition,
    starting: Bound,
    ending: Bound,
    options: Mapping[str, Any],
) -> ReadRange:
    start = _start(reader, key, starting, options["startingOffsetsByTimestampStrategy"])
    end = _end(reader, key, ending)
    if start > end and starting.timestamp is not None:
        start = end  # times may leave nothing
    if start > end:
        raise OffsetOutOfRangeError(
            f"{key}: the starting offset {start} is above the ending offset {end}"
        )
    found = ReadRange(key.topic, reader.topic.topic_id, key.partition, start, end)
    return _within_log(reader, found, fails=options["failOnDataLoss"])


def _start(reader: TopicReader, key: TopicPartition, bound: Bound, strategy: str) -> int:
    if bound.timestamp is None:
        earliest = reader.log_start_offset(key.partition)
        return earliest if bound.offset == EARLIEST else bound.offset
    found = reader.list_offset(key.partition, bound.timestamp)
    if found != UNKNOWN_OFFSET:
        return found.offset
    if strategy == "latest":
        return reader.log_end_offset(key.partition)
    raise OffsetOutOfRangeError(
        f"{key}: no record at or after timestamp {bound.timestamp}; "
        f"startingOffsetsByTimestampStrategy=latest would start at the log end"
    )


def _end(reader: TopicReader, key: TopicPartition, bound: Bound) -> int:
    latest = reader.log_end_offset(key.partition)
    if bound.timestamp is None:
        return latest if bound.offset == LATEST else bound.offset
    found = reader.list_offset(key.partition, bound.timestamp)
    return latest if found == UNKNOWN_OFFSET else found.offset


def _within_log(reader: TopicReader, wanted: ReadRange, *, fails: bool) -> ReadRange:
    low = reader.log_start_offset(wanted.partition)
    high = reader.log_end_offset(wanted.partition)
    if low <= wanted.start and wanted.end <= high:
        return wanted
    problem = (
        f"{wanted.topic}-{wanted.partition}: offsets [{wanted.start}, {wanted.end}) are not all in "
        f"the log, which holds [{low}, {high})"
    )
    if fails:
        raise OffsetOutOfRangeError(f"{problem}; failOnDataLoss=false reads what there is")
    warnings.warn(f"{problem}: reading what there is", SparklogWarning, stacklevel=2)
    start = min(max(wanted.start, low), high)
    return replace(wanted, start=start, end=max(start, min(wanted.end, high)))


class SliceFinder:
    """Finds the segments of planned ranges, in the newest manifest of each topic."""

    def __init__(self, catalog: Catalog, *, fails: bool) -> None:
        """`fails` says whether offsets that retention has removed are an error."""
        self._catalog = catalog
        self._fails = fails
        self._readers: dict[str, TopicReader] = {}

    def slices(self, wanted: ReadRange) -> list[Slice]:
        """Return the segments' slices of a range.

        Raises UnknownTopicError when the topic is gone, even if another one has its name now, and
        OffsetOutOfRangeError when retention has removed offsets of the range.
        """
        reader = self._reader(wanted)
        within = _within_log(reader, wanted, fails=self._fails)
        return reader.slices(within.partition, within.start, within.end)

    def _reader(self, wanted: ReadRange) -> TopicReader:
        if wanted.topic_id not in self._readers:
            topic = self._catalog.cluster.state().topics.get(wanted.topic_id)
            if topic is None or topic.deleted_ms is not None:
                raise UnknownTopicError(
                    f"topic {wanted.topic!r} was deleted after the read was planned",
                    topic=wanted.topic,
                )
            snapshot = self._catalog.store(topic).snapshot()
            self._readers[wanted.topic_id] = TopicReader(self._catalog.files, topic, snapshot)
        return self._readers[wanted.topic_id]
