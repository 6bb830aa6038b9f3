"""One run, byte for byte: a Parquet file whose every byte is under a checksum.

    row groups of the log dir's rows       the kinds in `tables.LOG_DIR_KINDS`
    row groups of the topics' rows         kinds partition, producer, receipt, segment
    footer                                 under the CRC-32C in the FoldEdit

The footer's metadata has a member `sparklog.groups`: a JSON list of [start, end, CRC-32C, first
topic id, last topic id], one for each row group; the ids are null for the log dir's rows. So
opening a log dir reads the first groups of a run, and opening a topic reads the groups that may
hold its id. Every byte is checked before it is used. Columns without a value are left out. Pages
have checksums too, for other readers.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.errors import CorruptMetadataError
from sparklog.log.names import CLUSTER_METADATA, uuid7
from sparklog.metadata.names import run_name
from sparklog.metadata.runs.rows import filled
from sparklog.metadata.runs.tables import LOG_DIR_KINDS, check_columns
from sparklog.metadata.state.edit import RunFile
from sparklog.record.arrays import empty_table, strings_of
from sparklog.record.checksum import crc32c
from sparklog.storage.file_object import FileObject
from sparklog.storage.files import Files, Reader

GROUP_ROWS: Final = 16_384
FOOTER_GUESS: Final = 64 * 1024
"""How many bytes of a run's end are read at first; most footers are smaller."""

_REMEDY: Final = "run sparklog verify --repair"
_GROUPS: Final = b"sparklog.groups"
_LENGTH_BYTES: Final = 4
_END_BYTES: Final = 8


class Group(NamedTuple):
    """A row group: its bytes [start, end), their checksum, and the range of its topic ids."""

    start: int
    end: int
    crc32c: int
    first_topic: str | None
    last_topic: str | None


def parquet_of(rows: pa.Table) -> bytes:
    """Return the bytes of a run; `rows` are sorted as `rows.in_order` sorts."""
    rows = filled(rows)
    is_log_dirs = pc.is_in(rows.column("kind"), strings_of(sorted(LOG_DIR_KINDS)))
    cut = pc.sum(is_log_dirs).as_py() or 0
    sink, groups = BytesIO(), []
    with pq.ParquetWriter(
        sink,
        rows.schema,
        compression="zstd",
        use_dictionary=["kind", "topic_id"],
        write_statistics=["kind", "topic_id"],
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for part, start in _parts(rows, cut):
            before = sink.tell()
            writer.write_table(part, row_group_size=GROUP_ROWS)
            ids = part.column("topic_id")
            topics = (ids[0].as_py(), ids[-1].as_py()) if start >= cut else (None, None)
            with sink.getbuffer() as view:
                checksum = crc32c(view[max(before, _LENGTH_BYTES) :])
            groups.append(Group(max(before, _LENGTH_BYTES), sink.tell(), checksum, *topics))
        writer.add_key_value_metadata({_GROUPS: orjson.dumps([list(group) for group in groups])})
    return sink.getvalue()


def _parts(rows: pa.Table, cut: int) -> Iterator[tuple[pa.Table, int]]:
    for first, last in ((0, cut), (cut, rows.num_rows)):
        for start in range(first, last, GROUP_ROWS):
            yield rows.slice(start, min(GROUP_ROWS, last - start)), start


def footer(data: bytes | memoryview) -> bytes:
    """Return the footer of a Parquet file: its last bytes, with their length before the magic."""
    return bytes(data[max(0, len(data) - _footer_bytes(data)) :])


def _footer_bytes(end: bytes | memoryview) -> int:
    return _END_BYTES + int.from_bytes(bytes(end[-_END_BYTES:-_LENGTH_BYTES]), "little")


def put_run(
    files: Files,
    directory: str,
    data: bytes,
    span: tuple[int, int],
    row_count: int,
    now_ms: int,
) -> RunFile:
    """Write the bytes of a run to RUNS, HISTORY or CUTS, durably; return the run.

    `span` has the first and the last version of the run's entries.
    """
    name = run_name(directory, span, uuid7(now_ms, os.urandom(10)))
    files.write_new(f"{CLUSTER_METADATA}/{name}", data)
    files.sync([f"{CLUSTER_METADATA}/{name}"])
    return RunFile(name, len(data), crc32c(footer(data)), row_count, *span)


class RunReader:
    """Reads a run, which never changes; usable from any number of threads.

    Raises CorruptMetadataError, which names the file, if size, checksums or rows are wrong.
    """

    def __init__(self, files: Files, run: RunFile) -> None:
        self.path = f"{CLUSTER_METADATA}/{run.path}"
        self._files = files
        self._metadata = self._parsed(run)
        self.groups = self._read_groups()

    def _parsed(self, run: RunFile) -> pq.FileMetaData:
        guess = min(run.bytes, FOOTER_GUESS)
        # One byte more than there should be: if the file is longer, it is another one.
        end = self._files.view(self.path, guess + 1, run.bytes - guess)
        if len(end) == guess and guess < _footer_bytes(end) <= run.bytes:
            guess = _footer_bytes(end)
            end = self._files.view(self.path, guess, run.bytes - guess)
        found = footer(end)
        if len(end) != guess or crc32c(found) != run.crc32c:
            raise CorruptMetadataError(
                f"{self.path}: the fold that names it says {run.bytes} bytes, and CRC-32C "
                f"{run.crc32c:08x} of the footer; the file differs: {_REMEDY}"
            )
        with readable(self.path):
            return pq.read_metadata(pa.BufferReader(found))

    def _read_groups(self) -> list[Group]:
        with readable(self.path):
            found = orjson.loads((self._metadata.metadata or {}).get(_GROUPS, b""))
            groups = [Group(*one) for one in found]
        if len(groups) != self._metadata.num_row_groups:
            raise CorruptMetadataError(
                f"{self.path}: {len(groups)} checksums for {self._metadata.num_row_groups} groups"
            )
        return groups

    def log_dir_groups(self) -> list[int]:
        """Return the row groups of the log dir's own rows."""
        return [at for at, group in enumerate(self.groups) if group.first_topic is None]

    def topic_groups(self, first: str, last: str) -> list[int]:
        """Return the row groups that may hold topics with ids from `first` to `last`."""
        return [
            at
            for at, group in enumerate(self.groups)
            if group.first_topic is not None
            and group.last_topic is not None
            and group.first_topic <= last
            and group.last_topic >= first
        ]

    def read(self, groups: Sequence[int]) -> pa.Table:
        """Return the rows of some row groups, with the columns that the run has.

        Raises UnsupportedFeatureError for kinds or columns that this release does not know.
        """
        tables = []
        for at in groups:
            group = self.groups[at]
            data = self._files.view(self.path, group.end - group.start, group.start)
            if crc32c(data) != group.crc32c:
                raise CorruptMetadataError(
                    f"{self.path}: bytes {group.start} to {group.end} do not match their "
                    f"checksum: {_REMEDY}"
                )
            with readable(self.path):
                window = FileObject(_window(data, group.start), group.end)
                file = pq.ParquetFile(window, metadata=self._metadata, pre_buffer=False)
                tables.append(file.read_row_group(at, use_threads=False))
        if not tables:
            return check_columns(empty_table(self._metadata.schema.to_arrow_schema()), self.path)
        return check_columns(pa.concat_tables(tables), self.path)


def _window(data: memoryview, start: int) -> Reader:
    """Return the reader of a file of which only the bytes from `start` on are at hand."""
    return lambda position, length: data[position - start :][:length]


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn Arrow's errors about a damaged file into a CorruptMetadataError that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise CorruptMetadataError(f"{where}: cannot be read as a run: {error}") from error
