"""Runs: the folded image as sorted Parquet files, and images read from them.

A run holds the keys that entries `from` to `to` touched, as `to` left them (`file`, `tables`).
If several runs have a key, its newest row counts (`rows`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.metadata.names import RUNS
from sparklog.metadata.runs.file import RunReader, parquet_of, put_run
from sparklog.metadata.runs.rows import merged
from sparklog.metadata.runs.tables import HORIZON, PARTITION, RUN_SCHEMA, TOPIC, padded
from sparklog.metadata.runs.values import contents, image_of
from sparklog.metadata.state.edit import FoldEdit, RunFile
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.record.arrays import strings_of
from sparklog.storage.files import Files

KEPT_GROUPS: Final = 2
"""How many row groups are cached while topics are opened: a topic may be in two."""

MANY: Final = 64
MANY_ROWS: Final = 10_000
"""If a call opens more topics than MANY, or reads more rows than this, it releases Arrow's unused
memory at its end."""


class Runs:
    """The runs of one log dir. Their footers are read once and kept; runs never change."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._reader = lru_cache(64)(lambda run: RunReader(files, run))

    def image(self, fold: FoldEdit) -> Image:
        """Return the image as of the fold's cover; no topic is opened."""
        readers = [self._reader(run) for run in reversed(fold.runs)]
        tables = [reader.read(reader.log_dir_groups()) for reader in readers]
        return image_of(fold, merged(tables, drops_gone=True))

    def opened(self, fold: FoldEdit, topics: Mapping[str, TopicImage]) -> dict[str, TopicImage]:
        """Open topics: read their rows in the runs, and apply their waiting edits.

        Returns them by id. Each row group is read once, for any number of topics.
        """
        opened, count = self._opened(fold, topics)
        if len(topics) > MANY or count > MANY_ROWS:
            pa.default_memory_pool().release_unused()
        return opened

    def _opened(
        self, fold: FoldEdit, topics: Mapping[str, TopicImage]
    ) -> tuple[dict[str, TopicImage], int]:
        """Return the opened topics, and how many rows they have."""
        sessions = [_Session(self._reader(run)) for run in reversed(fold.runs)]
        opened: dict[str, TopicImage] = {}
        count = 0
        for batch in _batches(sorted(topics), sessions):
            rows = merged([one.rows_of(batch) for one in sessions], drops_gone=True)
            count += rows.num_rows
            of_batch = [topics[topic_id] for topic_id in batch]
            for topic, content in contents(of_batch, rows):
                opened[topic.description.topic_id] = topic.opened(content)
        return opened, count

    def whole(self, run: RunFile) -> pa.Table:
        """Return all rows of a run (RUN_SCHEMA), checked against every checksum."""
        reader = self._reader(run)
        return padded(reader.read(range(len(reader.groups))), RUN_SCHEMA)

    def outline(self, runs: Sequence[RunFile]) -> pa.Table:
        """Return the newest rows of the kinds horizon, topic and partition: the rows of a cut."""
        kinds = strings_of([HORIZON, PARTITION, TOPIC])
        tables = []
        for run in reversed(runs):
            rows = self.whole(run)
            tables.append(rows.filter(pc.is_in(rows.column("kind"), kinds)))
        rows = merged(tables, drops_gone=True)
        known = rows.filter(pc.equal(rows.column("kind"), strings_of([TOPIC])[0])).column(
            "topic_id"
        )
        ids = rows.column("topic_id")
        return rows.filter(pc.or_(pc.is_null(ids), pc.is_in(ids, known.combine_chunks())))

    def write(
        self, rows: pa.Table, span: tuple[int, int], now_ms: int, directory: str = RUNS
    ) -> RunFile:
        """Write a run of the entries in `span` (both ends included), durably; return the run."""
        return put_run(self._files, directory, parquet_of(rows), span, rows.num_rows, now_ms)


class _Session:
    """Reads topics of one run, in the order of their ids."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._group = lru_cache(KEPT_GROUPS)(lambda at: reader.read([at]))

    @property
    def bounds(self) -> list[str]:
        """The last topic id of each row group."""
        return [group.last_topic for group in self._reader.groups if group.last_topic is not None]

    def rows_of(self, topics: Sequence[str]) -> pa.Table:
        """Return the rows of these topics; `topics` are ids in ascending order, at least one."""
        tables = [self._reader.read([])]
        wanted = strings_of(topics)
        for at in self._reader.topic_groups(topics[0], topics[-1]):
            table = self._group(at)
            is_wanted = pc.is_in(table.column("topic_id"), wanted)
            tables.append(table if pc.all(is_wanted).as_py() else table.filter(is_wanted))
        return pa.concat_tables(tables)


def _batches(topics: Sequence[str], sessions: Sequence[_Session]) -> Iterator[Sequence[str]]:
    """Yield topics in batches that end with row groups of the largest run, to read each once."""
    bounds = max((one.bounds for one in sessions), key=len, default=[])
    cuts = np.searchsorted(topics, bounds, "right").tolist() if topics and bounds else []
    for start, stop in zip([0, *cuts], [*cuts, len(topics)], strict=True):
        if start < stop:
            yield topics[start:stop]
