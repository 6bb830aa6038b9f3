"""Runs: the folded image as sorted Parquet files, and images read from them.

    _runs/<from>-<to>-<uuid>.parquet      both versions with 20 digits

A run holds the keys that entries `from` to `to` touched, as `to` left them. Its rows come in two
parts, each in row groups of its own:

    the log dir's     kinds horizon, lease, shared, topic; by kind and key
    the topics'       kinds partition, receipt, segment; by topic id, kind, partition, base offset

So opening a log dir reads the first part of every run, and opening a topic reads the row groups
that may hold its id. Pages have checksums, and the FoldEdit that names a run has one of its footer.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from immutables import Map

from sparklog.errors import CorruptMetadataError
from sparklog.log.names import uuid7
from sparklog.metadata.edit import (
    EpochStart,
    FoldEdit,
    Lease,
    OpenTransaction,
    PartitionState,
    Receipt,
    ReceiptKey,
    RunFile,
)
from sparklog.metadata.image import (
    Image,
    PartitionLog,
    SharedSegment,
    Stamp,
    TopicImage,
)
from sparklog.metadata.segments import LiveSegments
from sparklog.metadata.tables import (
    HORIZON,
    KEY_COLUMNS,
    LEASE,
    PARTITION,
    RECEIPT,
    RUN_SCHEMA,
    SEGMENT,
    SEGMENT_SCHEMA,
    SHARED,
    TOPIC,
    checked,
    segment_entries,
)
from sparklog.model import OffsetRange, TopicDescription
from sparklog.storage.files import Files

RUNS: Final = "_runs"
GROUP_ROWS: Final = 16_384
LOG_DIR_KINDS: Final = frozenset({HORIZON, LEASE, SHARED, TOPIC})
_STATE: Final = (
    "log_start_offset",
    "log_end_offset",
    "leader_epoch",
    "cleaner_offset",
    "imported_end_offset",
)


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of some bytes."""
    value: int = google_crc32c.value(bytes(data))
    return value


class Runs:
    """The runs of one log dir. Files are opened once and kept; they never change."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._file = lru_cache(64)(self._opened_file)

    # --------------------------------------------------------------------------------------- read

    def covered(self, fold: FoldEdit) -> Image:
        """Return the image as of the fold's cover, its topics closed to view."""
        rows = self.newest(fold.runs, None).to_pylist()
        by_kind: dict[str, list[dict[str, Any]]] = {kind: [] for kind in LOG_DIR_KINDS}
        for row in rows:
            by_kind[row["kind"]].append(row)
        (horizon,) = by_kind[HORIZON]
        return Image(
            Stamp(fold.cover, horizon["name"], horizon["used_ms"]),
            topics=Map(
                {
                    row["topic_id"]: TopicImage(_description(row), row["version"], waiting=())
                    for row in by_kind[TOPIC]
                }
            ),
            leases=Map(
                {
                    row["name"]: Lease(row["name"], row["owner"], row["expires_ms"])
                    for row in by_kind[LEASE]
                }
            ),
            shared=Map(
                {
                    row["log_path"]: SharedSegment(row["slice_count"], row["unused_ms"])
                    for row in by_kind[SHARED]
                }
            ),
            horizon_ms=horizon["horizon_ms"],
            level=horizon["level"],
            fold=fold,
        )

    def opened(self, fold: FoldEdit, topics: Mapping[str, TopicImage]) -> dict[str, TopicImage]:
        """Return topics that were closed to view, opened: rows of the runs, then waiting edits."""
        head = {row["topic_id"]: row for row in self._heads(fold, topics)}
        rows = self.newest(fold.runs, topics.keys())
        codes = pc.index_in(rows.column("topic_id"), pa.array(list(topics), pa.string()))
        bounds = np.searchsorted(_sorted(codes), np.arange(len(topics) + 1))
        order = np.argsort(codes.to_numpy(zero_copy_only=False), kind="stable")
        rows = rows if _is_sorted(order) else rows.take(pa.array(order))
        return {
            topic_id: topic.opened(
                _content(
                    topic,
                    head.get(topic_id, {}),
                    rows.slice(bounds[at], bounds[at + 1] - bounds[at]),
                )
            )
            for at, (topic_id, topic) in enumerate(topics.items())
        }

    def _heads(self, fold: FoldEdit, topics: Iterable[str]) -> list[dict[str, Any]]:
        rows = self.newest(fold.runs, None)
        wanted = pa.array(list(topics), pa.string())
        found: list[dict[str, Any]] = rows.filter(
            pc.and_(pc.equal(rows.column("kind"), TOPIC), pc.is_in(rows.column("topic_id"), wanted))
        ).to_pylist()
        return found

    def newest(self, runs: Sequence[RunFile], topics: Iterable[str] | None) -> pa.Table:
        """Return the rows that count: of each key the newest, without those that are gone.

        With `topics` those of these topics, sorted as in a run; else the log dir's own.
        """
        wanted = None if topics is None else sorted(topics)
        tables = [self._rows(run, wanted) for run in reversed(runs)]
        return merged([table for table in tables if table.num_rows], drops_gone=True)

    def whole(self, run: RunFile) -> pa.Table:
        """Return all rows of a run, checked against every checksum."""
        file = self._file(run)
        with told(self._where(run)):
            return checked(file.read(use_threads=False), self._where(run))

    def outline(self, runs: Sequence[RunFile]) -> pa.Table:
        """Return the newest rows of the kinds horizon, topic and partition: an image's numbers."""
        kinds = pa.array([HORIZON, PARTITION, TOPIC])
        tables = []
        for run in reversed(runs):
            file = self._file(run)
            segments = frozenset(SEGMENT_SCHEMA.names) - {"partition"}
            names = [name for name in file.schema_arrow.names if name not in segments]
            with told(self._where(run)):
                rows = checked(file.read(columns=names, use_threads=False), self._where(run))
            tables.append(rows.filter(pc.is_in(rows.column("kind"), kinds)))
        rows = merged(tables, drops_gone=True)
        known = rows.filter(pc.equal(rows.column("kind"), TOPIC)).column("topic_id")
        ids = rows.column("topic_id")
        return rows.filter(pc.or_(pc.is_null(ids), pc.is_in(ids, known.combine_chunks())))

    def _rows(self, run: RunFile, topics: Sequence[str] | None) -> pa.Table:
        file = self._file(run)
        groups = [
            number
            for number in range(file.metadata.num_row_groups)
            if _may_hold(file.metadata.row_group(number), topics)
        ]
        with told(self._where(run)):
            rows = file.read_row_groups(groups, use_threads=False)
        rows = checked(rows, self._where(run))
        if topics is not None:
            rows = rows.filter(pc.is_in(rows.column("topic_id"), pa.array(topics, pa.string())))
        return rows

    def _opened_file(self, run: RunFile) -> pq.ParquetFile:
        path = f"{self._directory}/{run.path}"
        data = self._files.view(path)
        if len(data) != run.bytes or crc32c(footer(data)) != run.crc32c:
            raise CorruptMetadataError(
                f"{path}: {len(data)} bytes whose footer has CRC-32C {crc32c(footer(data)):08x}; "
                f"the fold that names it says {run.bytes} and {run.crc32c:08x}"
            )
        with told(path):
            return pq.ParquetFile(
                pa.BufferReader(pa.py_buffer(data)), page_checksum_verification=True
            )

    def _where(self, run: RunFile) -> str:
        return f"{self._directory}/{run.path}"

    # -------------------------------------------------------------------------------------- write

    def write(
        self, rows: pa.Table, span: tuple[int, int], now_ms: int, directory: str = RUNS
    ) -> RunFile:
        """Write a run, durably, of the entries in `span` (both ends included); return its name."""
        name = f"{directory}/{span[0]:020}-{span[1]:020}-{uuid7(now_ms, os.urandom(10))}.parquet"
        data = parquet_of(rows)
        path = f"{self._directory}/{name}"
        self._files.write_new(path, data)
        self._files.sync([path])
        return RunFile(name, len(data), crc32c(footer(data)), rows.num_rows, *span)


def parquet_of(rows: pa.Table) -> bytes:
    """Return sorted rows as a run's bytes."""
    sink = pa.BufferOutputStream()
    used = [name for name in RUN_SCHEMA.names if rows.column(name).null_count < rows.num_rows]
    kept = {"kind", "as_of", "gone", "topic_id"}
    rows = rows.select([name for name in RUN_SCHEMA.names if name in kept or name in used])
    is_topic = pc.invert(
        pc.is_in(rows.column("kind"), pa.array(sorted(LOG_DIR_KINDS), pa.string()))
    )
    cut = rows.num_rows - (pc.sum(is_topic).as_py() or 0)
    with pq.ParquetWriter(
        sink,
        rows.schema,
        compression="zstd",
        use_dictionary=["kind", "topic_id"],
        write_statistics=["kind", "topic_id"],
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for part in (rows.slice(0, cut), rows.slice(cut)):
            if part.num_rows:  # a row group without rows would have no statistics
                writer.write_table(part, row_group_size=GROUP_ROWS)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def footer(data: bytes | memoryview) -> bytes:
    """Return the footer of a Parquet file: its last bytes, whose length stands before the magic."""
    length = int.from_bytes(bytes(data[-8:-4]), "little")
    return bytes(data[-8 - length :])


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows sorted as a run has them."""
    kinds = rows.column("kind")
    is_topics = pc.invert(pc.is_in(kinds, pa.array(sorted(LOG_DIR_KINDS), pa.string())))
    keys = pa.table(
        {
            "part": is_topics,
            "topic": pc.if_else(is_topics, rows.column("topic_id"), ""),
            "kind": kinds,
            "partition": rows.column("partition"),
            "base_offset": rows.column("base_offset"),
            "path": rows.column("log_path"),
            "position": rows.column("log_position"),
        }
    )
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return rows if _is_sorted(order.to_numpy()) else rows.take(order)


def merged(tables: Sequence[pa.Table], *, drops_gone: bool) -> pa.Table:
    """Return the rows that count of several runs, the newest run first, sorted as in a run."""
    if not tables:
        return RUN_SCHEMA.empty_table()
    kept = [tables[0]]
    seen = [_keys(tables[0])]
    for table in tables[1:]:
        keys = _keys(table)
        is_old = pc.is_in(keys, pa.chunked_array([c for one in seen for c in one.chunks]))
        kept.append(table.filter(pc.invert(is_old)))
        seen.append(keys)
    rows = pa.concat_tables(kept)
    if drops_gone:
        rows = rows.filter(pc.invert(rows.column("gone")))
    return in_order(rows) if len(tables) > 1 else rows


def _keys(table: pa.Table) -> pa.ChunkedArray:
    """Return each row's key as one string."""
    names = dict.fromkeys(name for columns in KEY_COLUMNS.values() for name in columns)
    kinds = table.column("kind")
    parts = [kinds]
    for name in names:
        has_it = [kind for kind, columns in KEY_COLUMNS.items() if name in columns]
        value = pc.fill_null(table.column(name).cast(pa.string()), "")
        parts.append(pc.if_else(pc.is_in(kinds, pa.array(has_it)), value, ""))
    keys = pc.binary_join_element_wise(*parts, "\n")
    return keys if isinstance(keys, pa.ChunkedArray) else pa.chunked_array([keys])


def _may_hold(group: pq.RowGroupMetaData, topics: Sequence[str] | None) -> bool:
    """Whether a row group may hold rows of these topics; of the log dir's own, when None."""
    kind = group.column(0).statistics
    is_log_dirs = kind is not None and kind.min in LOG_DIR_KINDS
    if topics is None or is_log_dirs:
        return topics is None and is_log_dirs
    ids = next(
        group.column(at).statistics
        for at in range(group.num_columns)
        if group.column(at).path_in_schema == "topic_id"
    )
    low, high = np.searchsorted(topics, [ids.min]), np.searchsorted(topics, [ids.max], "right")
    return bool(low[0] < high[0])


def _sorted(codes: pa.ChunkedArray) -> "np.typing.NDArray[np.int32]":
    values = np.sort(codes.to_numpy(zero_copy_only=False))
    return values


def _is_sorted(order: "np.typing.NDArray[Any]") -> bool:
    return bool((np.diff(order.astype(np.int64)) >= 0).all())


def _description(row: Mapping[str, Any]) -> TopicDescription:
    return TopicDescription(
        row["name"],
        row["topic_id"],
        row["partition_count"],
        dict(row["configs"] or ()),
        row["created_ms"],
        row["deleted_ms"],
    )


def _content(topic: TopicImage, head: Mapping[str, Any], rows: pa.Table) -> TopicImage:
    """Return a topic as its rows say it; `head` is its row of kind topic, empty for a new one."""
    name = topic.description.name
    kinds = rows.column("kind")
    segments = rows.filter(pc.equal(kinds, SEGMENT)).select(SEGMENT_SCHEMA.names)
    is_removed = pc.is_valid(segments.column("removed_ms"))
    removed = segment_entries(segments.filter(is_removed))
    live = segments.filter(pc.invert(is_removed)) if removed else segments
    live = live.combine_chunks()
    numbers = live.column("partition").to_numpy()
    partitions = {}
    for row in rows.filter(pc.equal(kinds, PARTITION)).to_pylist():
        number = row["partition"]
        start, stop = np.searchsorted(numbers, [number, number + 1]).tolist()
        partitions[number] = PartitionLog(
            f"{name}-{number}",
            number,
            PartitionState(*(row[column] for column in _STATE)),
            LiveSegments.of(live, start, stop),
            tuple(OpenTransaction(**one) for one in row["transactions"] or ()),
            tuple(EpochStart(**one) for one in row["epochs"] or ()),
        )
    before_ms = head.get("receipts_before_ms") or 0
    receipts = {
        ReceiptKey(row["app_id"], row["is_versioned"]): Receipt(
            tuple(OffsetRange(**one) for one in row["ranges"]),
            row["partition_count"],
            row["version"],
            row["content_crc32c"],
            row["used_ms"],
        )
        for row in rows.filter(pc.equal(kinds, RECEIPT)).to_pylist()
        if row["is_versioned"] or row["used_ms"] >= before_ms
    }
    return TopicImage(
        topic.description,
        topic.version,
        partitions=Map(partitions),
        removed=Map({entry.key: entry for entry in removed}),
        receipts=Map(receipts),
        vacuum_horizon_ms=head.get("vacuum_horizon_ms") or 0,
        receipts_before_ms=before_ms,
    )


class told:  # noqa: N801 - used as a with statement
    """Turn what Arrow says of a damaged file into CorruptMetadataError naming the file."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError):
            raise CorruptMetadataError(f"{self._where} cannot be read: {error}") from error
