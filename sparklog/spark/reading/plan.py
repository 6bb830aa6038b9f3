"""From options to offset ranges: the ranges of a batch, and the start of a stream."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sparklog.config.times import time_ms
from sparklog.errors import (
    InvalidOptionError,
    OffsetOutOfRangeError,
    SparklogError,
    SparklogWarning,
    UnknownTopicError,
)
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import Slice, TopicImage
from sparklog.model import EARLIEST, LATEST, READ_UNCOMMITTED, UNKNOWN_OFFSET, TopicPartition
from sparklog.spark.reading.groups import starting_bounds
from sparklog.spark.reading.offsets import Bound, Bounds, check_order, parse_bounds
from sparklog.spark.reading.pins import pinned, pinned_slices
from sparklog.spark.reading.selection import Selected, selected
from sparklog.spark.reading.splits import split_ranges


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The offsets [start, end) of a partition, of the topic that has that id.

    `cleaner_offset` is that of the version that is read; None where the newest one is read. `pin`
    names the segments that it was planned on (`pins`); None: the newest ones.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    cleaner_offset: int | None = None
    pin: bytes | None = None

    @property
    def size(self) -> int:
        """Offsets in the range, gaps included."""
        return self.end - self.start


def plan_read(catalog: Catalog, options: Mapping[str, Any]) -> list[ReadRange]:
    """Return the ranges that options (parsed CONSUME_OPTIONS) select, without empty ones.

    Raises InvalidOptionError, UnknownTopicError, OffsetOutOfRangeError (offsets that retention has
    removed or that do not exist yet, a start after its end, no record at a starting time).
    """
    return cut(plan_ranges(catalog, options), options)


def cut(ranges: Sequence[ReadRange], options: Mapping[str, Any]) -> list[ReadRange]:
    """Return ranges, cut by minPartitions and maxRecordsPerPartition, without empty ones."""
    return split_ranges(ranges, options["minPartitions"], options["maxRecordsPerPartition"])


@dataclass(frozen=True, slots=True)
class PinnedRead:
    """The ranges of a read with their segments, and where each partition of it ends."""

    ranges: list[ReadRange]
    ends: Mapping[TopicPartition, int]


def plan_pinned(catalog: Catalog, options: Mapping[str, Any]) -> PinnedRead:
    """Return the ranges of `plan_read`, with the segments that they have now. Raises as it."""
    found = plan_ranges(catalog, options)
    ends = {TopicPartition(one.topic, one.partition): one.end for one in found}
    return PinnedRead(with_pins(catalog, cut(found, options)), ends)


def with_pins(catalog: Catalog, ranges: Sequence[ReadRange]) -> list[ReadRange]:
    """Return ranges with the segments that they have now.

    A range whose topic is gone gets no pin, and offsets that are gone are in no pin: the tasks
    report both.
    """
    image = catalog.log.image({one.topic_id for one in ranges})
    return [replace(one, pin=_pin(image.topic(one.topic_id), one)) for one in ranges]


def _pin(topic: TopicImage | None, wanted: ReadRange) -> bytes | None:
    if topic is None or topic.deleted_ms is not None:
        return None
    return pinned(topic.partition(wanted.partition), wanted.start, wanted.end)


def plan_ranges(catalog: Catalog, options: Mapping[str, Any]) -> list[ReadRange]:
    """Return the ranges of `plan_read`, uncut: one of each partition, also if it is empty."""
    newest, catalog = catalog, as_of(catalog, options)
    wanted = selected(catalog, options)
    starting = starting_bounds(newest, options, wanted)
    ending = parse_bounds(options, "ending")
    refuse_others(wanted, starting, ending)
    readers = readers_of(catalog, wanted)
    ranges = [
        _range(readers[key.topic], key, starting.of(key), ending.of(key), options) for key in wanted
    ]
    if catalog is not newest:
        ranges = [
            replace(one, cleaner_offset=readers[one.topic].partition(one.partition).cleaner_offset)
            for one in ranges
        ]
    return ranges


def as_of(catalog: Catalog, options: Mapping[str, Any]) -> Catalog:
    """Return the topics as of the commit that versionAsOf or timestampAsOf asks for.

    Raises InvalidOptionError for both, or for a text that is no time; VersionOutOfRangeError for a
    commit that the history does not have (any more).
    """
    version, text = options["versionAsOf"], options["timestampAsOf"]
    if version is None and text is None:
        return catalog
    if version is not None and text is not None:
        raise InvalidOptionError("give versionAsOf or timestampAsOf, not both")
    timestamp_ms = None if text is None else time_ms(text, catalog.clock.now_ms())
    if text is not None and timestamp_ms is None:
        raise InvalidOptionError(
            f"option timestampAsOf: {text!r} is no time; allowed: milliseconds since 1970, or an "
            f"ISO date or time",
            option="timestampAsOf",
        )
    from sparklog.metadata.past import PastCatalog

    return PastCatalog(catalog, version=version, timestamp_ms=timestamp_ms)


def plan_start(catalog: Catalog, options: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return where a stream begins in each partition that exists now.

    `options` are parsed CONSUME_OPTIONS. Raises what `plan_read` raises.
    """
    wanted = selected(catalog, options)
    starting = starting_bounds(catalog, options, wanted, streaming=True)
    refuse_others(wanted, starting)
    readers = readers_of(catalog, wanted)
    return {
        key: _stream_start(readers[key.topic], key, starting.of(key), options) for key in wanted
    }


def _stream_start(
    reader: TopicReader, key: TopicPartition, bound: Bound, options: Mapping[str, Any]
) -> int:
    start = _start(reader, key, bound, options)
    nothing = ReadRange(key.topic, reader.topic.topic_id, key.partition, start, start)
    # A stream may begin above the last stable offset: it waits there.
    return within_log(reader, nothing, READ_UNCOMMITTED, fails=options["failOnDataLoss"]).start


def readers_of(catalog: Catalog, wanted: Selected) -> dict[str, TopicReader]:
    """Return a reader of each topic, by name; all of them read the same version of the log dir."""
    topics = {topic.name: topic for topic in wanted.values()}
    return TopicReader.open_all(catalog, topics.values())


def refuse_others(wanted: Selected, *bounds: Bounds) -> None:
    """Raise UnknownTopicError for bounds of topics or partitions that the read does not include."""
    partitions = {key for one in bounds for key in one.partitions} - set(wanted)
    topics = {topic for one in bounds for topic in one.topics} - {key.topic for key in wanted}
    if named := [*sorted(topics), *map(str, sorted(partitions))]:
        raise UnknownTopicError(
            f"offsets are given for {', '.join(named)}, which the read does not include"
        )


def _range(
    reader: TopicReader,
    key: TopicPartition,
    starting: Bound,
    ending: Bound,
    options: Mapping[str, Any],
) -> ReadRange:
    isolation = options["isolation.level"]
    start, end = _start(reader, key, starting, options), _end(reader, key, ending, isolation)
    check_order(key, (starting, start), (ending, end))
    found = ReadRange(key.topic, reader.topic.topic_id, key.partition, start, end)
    return within_log(reader, found, isolation, fails=options["failOnDataLoss"])


def _start(
    reader: TopicReader, key: TopicPartition, bound: Bound, options: Mapping[str, Any]
) -> int:
    isolation = options["isolation.level"]
    found = _bounded(reader, key, bound, isolation)
    if found is not None:
        return found
    if options["startingOffsetsByTimestampStrategy"] == "latest":
        return reader.partition(key.partition).end_offset(isolation)
    raise OffsetOutOfRangeError(
        f"{key}: no record at or after timestamp {bound.timestamp}; "
        f"startingOffsetsByTimestampStrategy=latest would start at the log end"
    )


def _end(reader: TopicReader, key: TopicPartition, bound: Bound, isolation: str) -> int:
    found = _bounded(reader, key, bound, isolation)
    return reader.partition(key.partition).end_offset(isolation) if found is None else found


def _bounded(reader: TopicReader, key: TopicPartition, bound: Bound, isolation: str) -> int | None:
    """Return the offset of a bound; None for a time if no record is at or after it."""
    if bound.timestamp is not None:
        found = reader.list_offset(key.partition, bound.timestamp, isolation)
        return None if found == UNKNOWN_OFFSET else found.offset
    log = reader.partition(key.partition)
    if bound.offset == EARLIEST:
        return log.log_start_offset
    return log.end_offset(isolation) if bound.offset == LATEST else bound.offset


def within_log(reader: TopicReader, wanted: ReadRange, isolation: str, *, fails: bool) -> ReadRange:
    """Return the part of a range that the log holds, to a reader of this isolation level.

    Offsets that the log has lost, or does not have yet, raise OffsetOutOfRangeError; unless
    `fails`, they are a warning.
    """
    log = reader.partition(wanted.partition)
    low, high = log.log_start_offset, log.end_offset(isolation)
    if low <= wanted.start and wanted.end <= high:
        return wanted
    is_all = high == log.log_end_offset
    stable = "" if is_all else f" for {isolation}: a transaction is open at {high}"
    problem = (
        f"{wanted.topic}-{wanted.partition}: offsets [{wanted.start}, {wanted.end}) are not all in "
        f"the log, which holds [{low}, {high}){stable}"
    )
    lost(OffsetOutOfRangeError(problem), fails=fails)
    start = min(max(wanted.start, low), high)
    return replace(wanted, start=start, end=max(start, min(wanted.end, high)))


def lost(error: SparklogError, *, fails: bool) -> None:
    """Raise an error that names the lost data; unless `fails`, warn with its text instead."""
    if fails:
        raise type(error)(f"{error}; failOnDataLoss=false reads what there is", **vars(error))
    warnings.warn(f"{error}: reading what there is", SparklogWarning, stacklevel=3)


def _check_uncleaned(wanted: ReadRange, cleaner_offset: int) -> None:
    then = wanted.cleaner_offset
    if then is not None and cleaner_offset > then:
        raise OffsetOutOfRangeError(
            f"{wanted.topic}-{wanted.partition}: the past version cannot be read any more: its "
            f"cleaner offset was {then}, and is {cleaner_offset} now",
            partition=wanted.partition,
        )


class SliceFinder:
    """Finds the segments of planned ranges: the pinned ones, else those that topics have now."""

    def __init__(
        self,
        catalog: Catalog,
        isolation: str,
        *,
        fails: bool,
        anew: Callable[[], Catalog] | None = None,
    ) -> None:
        """`fails` says whether data that is no longer there is an error.

        `anew` opens the log dir anew. Give it with a catalog that was opened a while ago: the log
        dir may have been replaced since then.
        """
        self._catalog = catalog
        self._anew = anew or (lambda: catalog)
        self._isolation = isolation
        self._fails = fails
        self._readers: dict[str, TopicReader | None] = {}

    def slices(self, wanted: ReadRange) -> list[Slice]:
        """Return the segments' slices of a range.

        If data loss is an error, raises UnknownTopicError when the topic is gone, even if another
        topic has its name now, and OffsetOutOfRangeError when retention has removed offsets of the
        range. Always raises OffsetOutOfRangeError when the range is of a past version that
        compaction has passed, as planning the read would (`history.read.check_readable`).
        """
        reader = self._reader(wanted)
        if reader is None:
            return []
        _check_uncleaned(wanted, reader.partition(wanted.partition).cleaner_offset)
        within = within_log(reader, wanted, self._isolation, fails=self._fails)
        if wanted.pin is not None:
            return pinned_slices(wanted.pin, within.start, within.end)
        return list(reader.slices(within.partition, within.start, within.end))

    def _reader(self, wanted: ReadRange) -> TopicReader | None:
        if wanted.topic_id not in self._readers:
            self._readers[wanted.topic_id] = self._opened(wanted)
        return self._readers[wanted.topic_id]

    def _opened(self, wanted: ReadRange) -> TopicReader | None:
        topic = self._existing(wanted.topic_id)
        if topic is None:
            problem = f"topic {wanted.topic!r} was deleted after the read was planned"
            lost(UnknownTopicError(problem, topic=wanted.topic), fails=self._fails)
            return None
        return TopicReader(self._catalog.files, topic.description, topic)

    def _existing(self, topic_id: str) -> TopicImage | None:
        with suppress(SparklogError):
            if found := self._catalog.log.image([topic_id]).existing(topic_id):
                return found
        self._catalog = self._anew()
        return self._catalog.log.image([topic_id]).existing(topic_id)
