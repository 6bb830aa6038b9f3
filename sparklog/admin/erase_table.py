"""Erase in the table of a topic: its files are searched, and files with a hit written anew.

The table's marks count every erasure, also one that finds nothing. A build that has read the log
before the erasure has planned with another count, so its commit is refused. From before the first
commit to the log until the last commit to the table, a mark also says that an erasure is under way:
meanwhile a read of log and table (history=auto) reads the log alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from sparklog.admin.erase_segment import Keys, has_key, sound
from sparklog.clock import Clock
from sparklog.config.topic import TopicConfig
from sparklog.errors import CommitConflictError
from sparklog.fleet import Fleet
from sparklog.log.names import born_ms
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicDescription
from sparklog.storage.files import Files
from sparklog.table.delta_log import DELTA_LOG
from sparklog.table.footer import opened
from sparklog.table.of_topic import (
    ERASE_BEGUN,
    ERASE_ENDED,
    ERASED,
    Change,
    commit,
    delta_log,
    table_directory,
)
from sparklog.table.parquet import WrittenFile, write_files
from sparklog.table.rows import read_rows
from sparklog.table.schema import ARROW_SCHEMA
from sparklog.table.snapshot import DataFile, Snapshot

ROUNDS_MAX: Final = 100


class TableErased(NamedTuple):
    """How many rows were removed, and from how many files."""

    rows: int = 0
    files: int = 0


def search_file(files: Files, topic: TopicDescription, keys: Keys, file: DataFile) -> int:
    """Return how many rows of a file have one of the keys."""
    batches = read_rows(opened(files, f"{table_directory(topic)}/{file.path}"), ["key"])
    return sum(int(has_key(one.column("key"), keys).sum()) for one in batches)


def without_rows(
    files: Files, clock: Clock, topic: TopicDescription, keys: Keys, file: DataFile
) -> list[WrittenFile]:
    """Write the other rows of a file, in its order; return the synced files."""
    directory = table_directory(topic)
    batches = read_rows(opened(files, f"{directory}/{file.path}"), ARROW_SCHEMA.names)
    written = write_files(files, directory, _others(batches, keys), clock.now_ms())
    # A file of another writer may be too large to be sorted in memory.
    return [replace(one, is_sorted=file.is_sorted) for one in written]


def _others(batches: Iterator[pa.RecordBatch], keys: Keys) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        stays = batch.filter(pa.array(~has_key(batch.column("key"), keys)))
        if stays.num_rows:
            yield stays.select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA)


def begin(catalog: Catalog, topic: TopicDescription) -> int | None:
    """Mark in the table that an erasure is under way; return its number, None without a table.

    Raises UsageError for a table that another writer has changed.
    """
    if not _has_table(topic, delta_log(catalog.files, topic, catalog.clock).snapshot()):
        return None
    after = commit(catalog.files, topic, catalog.clock, Change(operation=ERASE_BEGUN))
    return after.marks(topic.topic_id).erasing


def end(catalog: Catalog, topic: TopicDescription, number: int | None) -> None:
    """Mark that the erasure of this number is over, unless another one has begun since."""
    if number is not None:
        change = Change(operation=ERASE_ENDED, erasing=number)
        commit(catalog.files, topic, catalog.clock, change)


def _has_table(topic: TopicDescription, snapshot: Snapshot) -> bool:
    return snapshot.exists or TopicConfig.parse(topic.configs).table_enable


def erase_table(
    catalog: Catalog, topic: TopicDescription, keys: Keys, fleet: Fleet, *, dry_run: bool
) -> TableErased:
    """Erase in a topic's table, after the log; return the numbers of removed rows and files.

    Raises UsageError for a table that another writer has changed, CommitConflictError, and the
    errors of the tasks.
    """
    log = delta_log(catalog.files, topic, catalog.clock)
    clean: set[str] = set()
    done, is_counted = TableErased(), False
    for _ in range(ROUNDS_MAX):
        snapshot = log.snapshot()
        if not _has_table(topic, snapshot):
            return done
        hits = _hits(catalog, topic, snapshot, keys, fleet, clean)
        found = TableErased(sum(hits.values()), len(hits))
        if dry_run:
            return found
        if is_counted and not hits:
            return done
        dropped = [snapshot.files[path] for path in hits]
        task = partial(without_rows, catalog.files, catalog.clock, topic, keys)
        written = sound(fleet.map(task, dropped, f"erase table {topic.name}"))
        change = Change(
            operation=ERASED,
            written=[one for some in written for one in some],
            dropped=dropped,
            parameters={"keys": str(len(keys)), "erased": str(found.rows)},
            log_version=catalog.log_version(topic),
        )
        try:
            commit(catalog.files, topic, catalog.clock, change)
        except CommitConflictError:
            continue  # a build has merged a file meanwhile
        is_counted = True
        clean.update(one.path for one in change.written)
        done = TableErased(done.rows + found.rows, done.files + found.files)
    raise CommitConflictError(
        f"the table of topic {topic.name!r}: other commits were first, {ROUNDS_MAX} times"
    )


def strangers(catalog: Catalog, topic: TopicDescription) -> int:
    """Return the number of files that no commit names, and that only another writer may delete."""
    directory = table_directory(topic)
    paths = [
        one.path.removeprefix(f"{directory}/")
        for one in catalog.files.list(directory, recursive=True)
    ]
    data = [one for one in paths if one.endswith(".parquet") and not one.startswith(DELTA_LOG)]
    if all(born_ms(one) is not None for one in data):
        return 0
    snapshot = delta_log(catalog.files, topic, catalog.clock).snapshot()
    named = snapshot.files.keys() | snapshot.removed.keys()
    return sum(1 for one in data if born_ms(one) is None and one not in named)


def _hits(
    catalog: Catalog,
    topic: TopicDescription,
    snapshot: Snapshot,
    keys: Keys,
    fleet: Fleet,
    clean: set[str],
) -> dict[str, int]:
    """Return the number of rows to erase, for each file that has some; add others to `clean`."""
    unknown = [one for path, one in snapshot.files.items() if path not in clean]
    task = partial(search_file, catalog.files, topic, keys)
    counts = sound(fleet.map(task, unknown, f"erase table {topic.name}"))
    hits = {one.path: count for one, count in zip(unknown, counts, strict=True) if count}
    clean.update(one.path for one in unknown if one.path not in hits)
    return hits
