"""Blocks of records to stdout: ranges of partitions, up to a limit; new records with --follow."""

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from sparklog.cli.output import binary_stdout
from sparklog.errors import MissingFileError, SparklogWarning, StorageError, UnknownTopicError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.catalog import Catalog
from sparklog.model import READ_UNCOMMITTED, TopicDescription
from sparklog.record.decode import DecodedRecords

POLL_MS: Final = 500
"""How often `follow` looks for a new commit."""
ROWS_MAX: Final = 32_768

Ranges = Mapping[int, tuple[int, int]]
"""Offsets [start, end) by partition."""


class Renderer(Protocol):
    """Turns blocks of records into bytes."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of a record that it needs."""
        ...

    def render(self, topic: str, partition: int, records: DecodedRecords) -> pa.Buffer:
        """Return the bytes of a block."""
        ...


class Printer:
    """Prints records to stdout until `limit` of them are printed; None is no limit."""

    def __init__(
        self, renderer: Renderer, limit: int | None, isolation: str = READ_UNCOMMITTED
    ) -> None:
        self._renderer = renderer
        self.isolation = isolation
        self._left = limit
        self.at: dict[int, int] = {}
        """The offset behind the last printed record of each partition."""

    @property
    def is_done(self) -> bool:
        """Whether the limit is reached."""
        return self._left == 0

    def print(self, reader: TopicReader, ranges: Ranges) -> None:
        """Print ranges, one partition after another. Raises as `read_slices`."""
        stdout = binary_stdout()
        try:
            for partition, (start, end) in ranges.items():
                for records in self._blocks(reader, partition, start, end):
                    stdout.write(self._renderer.render(reader.topic.name, partition, records))
                    self.at[partition] = records.offset[-1].as_py() + 1
                self.at[partition] = end
        finally:
            stdout.flush()

    def _blocks(
        self, reader: TopicReader, partition: int, start: int, end: int
    ) -> Iterator[DecodedRecords]:
        if self.is_done or start == end:
            return
        rows_max = ROWS_MAX if self._left is None else min(self._left, ROWS_MAX)
        for records in read_slices(
            reader.files,
            reader.directory,
            reader.slices(partition, start, end),
            columns=("offset", *self._renderer.columns),
            rows_max=rows_max,
            isolation=self.isolation,
        ):
            wanted = records if self._left is None else records.slice(0, self._left)
            yield wanted
            if self._left is not None:
                self._left -= wanted.num_rows
                if self._left == 0:
                    return


def follow(
    catalog: Catalog,
    reader: TopicReader,
    printer: Printer,
    starts: Mapping[int, int],
    chosen: Collection[int],
) -> None:
    """Print all records from `starts` on, until the limit is reached or Ctrl-C comes.

    Without `chosen` partitions, those that are added later are printed from their start. While the
    storage fails, it tries again, after one warning. Raises UnknownTopicError when the topic is
    deleted.
    """
    printer.at |= starts
    is_away = False
    while True:
        try:
            newest = _newest(catalog, reader.topic)
            printer.print(newest, _new_ranges(newest, printer, chosen))
            is_away = False
        except StorageError as error:
            if isinstance(error, MissingFileError) or not error.retriable:
                raise
            if not is_away:
                warnings.warn(f"{error.message}; trying again", SparklogWarning, stacklevel=2)
            is_away = True
        if printer.is_done:
            return
        catalog.clock.sleep_ms(POLL_MS)


def _newest(catalog: Catalog, topic: TopicDescription) -> TopicReader:
    newest = TopicReader.open(catalog, topic.name)
    if newest.topic.topic_id != topic.topic_id:
        raise UnknownTopicError(
            f"topic {topic.name!r} was deleted, and another created under its name",
            topic=topic.name,
        )
    return newest


def _new_ranges(newest: TopicReader, printer: Printer, chosen: Collection[int]) -> Ranges:
    """Return what is not printed yet; warn of offsets that are gone."""
    ranges = {}
    for partition in chosen or range(newest.topic.num_partitions):
        log = newest.partition(partition)
        low = log.log_start_offset
        start = printer.at.get(partition, low)
        if start < low:
            problem = f"{newest.topic.name}-{partition}: offsets {start} to {low - 1} are gone"
            warnings.warn(problem, SparklogWarning, stacklevel=2)
            printer.at[partition] = start = low
        ranges[partition] = start, max(start, log.end_offset(printer.isolation))
    return ranges
