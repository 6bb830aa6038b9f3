"""The files of the history: runs of past entries, and cuts. `read` reads them.

    history run    the entries of its versions, a row each, without credentials of users
    cut            a run without segments and receipts: horizon, topics and partitions as of its
                   version

    version  timestamp_ms  operation  parameters (JSON)  edits (JSON, `codec`)  id  previous

A fold moves the entries that it covers into a history run, and joins small runs into larger ones.
`FoldEdit.history` names files of both kinds. The fold writes a cut when CUT_EVERY entries have come
since the last cut, and at least as many as that cut has rows. So cuts cost about a row per entry.

The retention removes whole runs: a run is removed when all its entries are too old, by their times
and by the clock of the process that folds, or when the history takes too many bytes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from sparklog.errors import CorruptMetadataError, MissingFileError
from sparklog.log.names import CLUSTER_METADATA, born_ms
from sparklog.metadata.codec.edits import edit_of
from sparklog.metadata.codec.entry import Entry, ReadEntry, encode_edits, understood
from sparklog.metadata.codec.types import Json
from sparklog.metadata.follow import FollowedLog
from sparklog.metadata.names import CUTS, HISTORY, entry_path
from sparklog.metadata.runs.file import footer, put_run, readable
from sparklog.metadata.state.edit import NO_STAMP, Edit, FoldEdit, RunFile, Stamp
from sparklog.metadata.state.image import Image
from sparklog.record.arrays import values_of
from sparklog.record.checksum import crc32c
from sparklog.storage.files import Files
from sparklog.storage.log_dir import Retention, retention_of

CUT_EVERY: Final = 4096
"""The smallest number of entries between two cuts."""
MERGED_ROWS_MAX: Final = 65_536
"""The most rows of a history run: the retention removes whole runs."""
MERGED_BYTES_MAX: Final = 2 * 1024 * 1024
"""The most bytes of a history run that is joined with newer ones: all its rows are in memory then,
and take some ten times as much. The entries of 4,000 busy partitions have 2 MB a second."""
GROUP_ROWS: Final = 2_048
_UNREADABLE: Final = (CorruptMetadataError, MissingFileError)
"""The errors of a run that does not keep others from being written."""

SCHEMA: Final = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("operation", pa.string()),
        ("parameters", pa.string()),
        ("edits", pa.binary()),
        ("id", pa.string()),
        ("previous", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One commit. `parameters` describe it for people; `edits_json` has all its changes."""

    version: int
    timestamp_ms: int
    operation: str
    parameters: Mapping[str, str]
    id: str
    previous: str
    edits_json: bytes

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits of the commit."""
        where = f"the history of version {self.version}"
        with understood(where):
            return tuple(edit_of(one, self.parameters) for one in orjson.loads(self.edits_json))

    @property
    def stamp(self) -> Stamp:
        """The entry's place in the log."""
        return Stamp(self.version, self.id, self.timestamp_ms)


def records(
    log: FollowedLog, fold: FoldEdit, first: int, last: int, *, newest_first: bool = False
) -> Iterator[HistoryRecord]:
    """Yield the commits from `first` to `last`: a fold's history, and the entries behind it."""
    behind = range(max(first, fold.cover + 1), last + 1)
    runs = [run for run in history_runs_of(fold) if run.from_version <= last]
    runs = [run for run in runs if run.to_version >= first]
    if newest_first:
        yield from (record_of(unfolded_entry(log, fold, version)) for version in reversed(behind))
        for run in reversed(runs):
            yield from _of_run(log.files, run, first, last, newest_first)
    else:
        for run in runs:
            yield from _of_run(log.files, run, first, last, newest_first)
        yield from (record_of(unfolded_entry(log, fold, version)) for version in behind)


def _of_run(
    files: Files, run: RunFile, first: int, last: int, newest_first: bool
) -> Iterator[HistoryRecord]:
    where = f"{CLUSTER_METADATA}/{run.path}"
    file = open_run(files, run)
    numbers = range(file.metadata.num_row_groups)
    for number in reversed(numbers) if newest_first else numbers:
        found = file.metadata.row_group(number).column(0).statistics
        if found.max < first or found.min > last:
            continue
        with readable(where):
            rows = file.read_row_group(number, use_threads=False)
        rows = rows.to_pylist()
        for row in reversed(rows) if newest_first else rows:
            if first <= row["version"] <= last:
                yield _of_row(row)


def _of_row(row: Mapping[str, Any]) -> HistoryRecord:
    return HistoryRecord(
        row["version"],
        row["timestamp_ms"],
        row["operation"],
        orjson.loads(row["parameters"]),
        row["id"],
        row["previous"],
        row["edits"],
    )


def required(log: FollowedLog, version: int) -> ReadEntry:
    """Return an entry whose edits are not decoded. Raises CorruptMetadataError if it is missing."""
    read = log.entries.parsed(version)
    if read is None:
        raise CorruptMetadataError(f"{entry_path(version)} is missing")
    return read


def unfolded_entry(log: FollowedLog, fold: FoldEdit, version: int) -> Entry:
    """Return an entry that a fold does not cover, as the history will keep it.

    An entry of another writer gets the id and the time of the entry before it, as in the image, so
    that times never go down. Raises CorruptMetadataError if an entry is missing.
    """
    entry = required(log, version).decoded()
    if not entry.is_foreign:
        return entry
    _, entry_id, timestamp_ms = _own_before(log, fold, version)
    return replace(entry, id=entry_id, previous=entry_id, timestamp_ms=timestamp_ms)


def unfolded_records(
    log: FollowedLog, image: Image
) -> Iterator[tuple[HistoryRecord, Sequence[Json]]]:
    """Yield each entry behind the image's fold, up to the image, with its edits as JSON.

    The edits are not decoded: that happened when they were applied to the image. The ids show that
    each entry is still the one that was applied. Raises CorruptMetadataError if an entry is
    missing, or if it is another one, as in a log dir that was restored or replaced since.
    """
    before: HistoryRecord | None = None
    for version in range(image.fold.cover + 1, image.version + 1):
        read = required(log, version)
        if read.entry.is_foreign:
            record = record_of(unfolded_entry(log, image.fold, version))
        else:
            record = _record_read(read)
        if before is not None and record.previous != before.id:
            raise _replaced(version - 1, before.id, record.previous)
        before = record
        yield record, read.edits
    if before is not None and before.id != image.stamp.entry_id:
        raise _replaced(before.version, before.id, image.stamp.entry_id)


def _record_read(read: ReadEntry) -> HistoryRecord:
    """Return an entry whose edits are not decoded as a row of the history."""
    has_users = any("users" in edit for edit in read.edits)
    return stored_record_of(read.decoded()) if has_users else record_of(read.entry)


def _replaced(version: int, found: str, followed: str) -> CorruptMetadataError:
    return CorruptMetadataError(
        f"{entry_path(version)} is entry {found!r} now, and was {followed!r} when it was followed: "
        f"the log dir was restored or replaced; open it anew"
    )


def _own_before(log: FollowedLog, fold: FoldEdit, version: int) -> Stamp:
    """Return the stamp of the newest entry below `version` that sparklog wrote."""
    for number in range(version - 1, fold.cover, -1):
        before = required(log, number).decoded()
        if not before.is_foreign:
            return before.stamp
    return log.runs.image(fold).stamp if fold.runs else NO_STAMP


def record_of(entry: Entry) -> HistoryRecord:
    """Return an entry as a row of the history."""
    return HistoryRecord(
        entry.version,
        entry.timestamp_ms,
        entry.operation,
        entry.parameters,
        entry.id,
        entry.previous,
        encode_edits(entry.edits) if entry.edits_json is None else entry.edits_json,
    )


def stored_record_of(entry: Entry) -> HistoryRecord:
    """Return an entry as the history keeps it, without credentials of users.

    They would stay in the history after the user has got new ones.
    """
    if not any(edit.users for edit in entry.edits):
        return record_of(entry)
    edits = tuple(edit.without_credentials() for edit in entry.edits)
    return record_of(replace(entry, edits=edits, edits_json=None))


def open_run(files: Files, run: RunFile) -> pq.ParquetFile:
    """Return a history run, opened. Raises CorruptMetadataError, which names the damaged file."""
    path = f"{CLUSTER_METADATA}/{run.path}"
    data = files.view(path)
    if len(data) != run.bytes or crc32c(footer(data)) != run.crc32c:
        raise CorruptMetadataError(
            f"{path}: {len(data)} bytes whose footer has CRC-32C {crc32c(footer(data)):08x}; the "
            f"fold that names it says {run.bytes} and {run.crc32c:08x}"
        )
    with readable(path):
        source = pa.BufferReader(pa.py_buffer(data))
        return pq.ParquetFile(source, page_checksum_verification=True)


def rows_of_run(files: Files, run: RunFile, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a history run. Raises CorruptMetadataError."""
    with readable(f"{CLUSTER_METADATA}/{run.path}"):
        return open_run(files, run).read(columns=columns, use_threads=False)


def history_runs_of(fold: FoldEdit) -> list[RunFile]:
    """Return a fold's history runs, oldest first."""
    return [run for run in fold.history if run.path.startswith(HISTORY)]


def cuts_of(fold: FoldEdit) -> list[RunFile]:
    """Return a fold's cuts, oldest first."""
    return [run for run in fold.history if run.path.startswith(CUTS)]


def continued(
    log: FollowedLog,
    before: FoldEdit,
    entries: Sequence[HistoryRecord],
    runs: Sequence[RunFile],
) -> tuple[RunFile, ...]:
    """Return the history of a fold of `entries`: that of `before`, a run of them, a cut if due.

    Writes files. The entries have no credentials (`stored_record_of`). `runs` are those of the new
    fold. If the history of `before` does not reach up to the entries, it is dropped.
    """
    past, cuts = history_runs_of(before), cuts_of(before)
    if past and past[-1].to_version + 1 != entries[0].version:
        past, cuts = [], []
    past = _with_entries(log, past, entries)
    past = _kept(log, past, retention_of(log.files))
    oldest = past[0].from_version
    cuts = [cut for cut in cuts if cut.to_version + 1 >= oldest]
    cover = entries[-1].version
    due = max(CUT_EVERY, cuts[-1].rows) if cuts else CUT_EVERY
    if cover - (cuts[-1].to_version if cuts else oldest - 1) >= due or (oldest and not cuts):
        rows = log.runs.outline(runs)
        cuts.append(log.runs.write(rows, (cover, cover), log.clock.now_ms(), CUTS))
    return (*past, *cuts)


def _with_entries(
    log: FollowedLog, past: Sequence[RunFile], entries: Sequence[HistoryRecord]
) -> list[RunFile]:
    """Return the history runs with one more, which takes in the small ones before it.

    A run that cannot be read stays as it is: a reader of that part of the history gets the error.
    """
    kept, tables = list(past), [_table(entries)]
    rows, first = len(entries), entries[0].version
    while kept and _is_small(kept[-1], rows):
        try:
            tables.insert(0, rows_of_run(log.files, kept[-1]))
        except _UNREADABLE:
            break
        run = kept.pop()
        rows, first = rows + run.rows, run.from_version
    span = first, entries[-1].version
    kept.append(write(log.files, pa.concat_tables(tables), span, log.clock.now_ms()))
    return kept


def _is_small(run: RunFile, rows: int) -> bool:
    """Whether a history run is joined with `rows` newer rows."""
    return run.rows <= min(2 * rows, MERGED_ROWS_MAX - rows) and run.bytes <= MERGED_BYTES_MAX


def _kept(log: FollowedLog, past: Sequence[RunFile], retention: Retention) -> list[RunFile]:
    """Return the history runs that stay; the newest one always does."""
    now_ms, kept = log.clock.now_ms(), list(past)
    while len(kept) > 1:
        is_large = 0 <= retention.bytes < sum(run.bytes for run in kept)
        is_kept = retention.ms < 0 or not _is_over(log.files, kept[0], now_ms - retention.ms)
        if is_kept and not is_large:
            break
        kept.pop(0)
    return kept


def _is_over(files: Files, run: RunFile, before_ms: int) -> bool:
    """Whether all entries of a run are older than a time (ms); False if it cannot be read.

    The file is as old as its newest entries: while it is young, it is not read.
    """
    if (born_ms(run.path) or 0) >= before_ms:
        return False
    try:
        file = open_run(files, run)
    except _UNREADABLE:
        return False
    newest = file.metadata.row_group(file.metadata.num_row_groups - 1).column(1).statistics.max
    return bool(newest < before_ms)


def _table(records: Sequence[HistoryRecord]) -> pa.Table:
    columns: list[list[Any]] = [
        [one.version for one in records],
        [one.timestamp_ms for one in records],
        [one.operation for one in records],
        [orjson.dumps(dict(one.parameters)).decode() for one in records],
        [one.edits_json for one in records],
        [one.id for one in records],
        [one.previous for one in records],
    ]
    arrays = [values_of(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write(files: Files, rows: pa.Table, span: tuple[int, int], now_ms: int) -> RunFile:
    """Write a history run, durably; return the run."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        row_group_size=GROUP_ROWS,
        compression="zstd",
        use_dictionary=["operation"],
        write_statistics=["version", "timestamp_ms"],
        write_page_checksum=True,
        store_schema=False,
    )
    data = sink.getvalue().to_pybytes()
    return put_run(files, HISTORY, data, span, rows.num_rows, now_ms)


def without_damaged(fold: FoldEdit, damaged: Collection[str]) -> tuple[RunFile, ...]:
    """Return a fold's history without damaged files, and without all before a damaged run."""
    sound = takewhile(lambda run: run.path not in damaged, reversed(history_runs_of(fold)))
    past = list(sound)[::-1]
    oldest = past[0].from_version if past else fold.cover + 1
    cuts = [
        cut for cut in cuts_of(fold) if cut.path not in damaged and cut.to_version + 1 >= oldest
    ]
    return (*past, *cuts)
