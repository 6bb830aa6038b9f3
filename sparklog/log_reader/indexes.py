"""A segment's sparse indexes, as far as they can be trusted.

An index has no checksum, so what it says is checked where it is used: the batch it points at must
be one, and must be the one it names. An index that is missing, cut or damaged is said in a warning
and done without: the segment is walked from its beginning, and no record is lost.
"""

import warnings

from sparklog.errors import CorruptRecordError, MissingFileError, SparklogWarning
from sparklog.log.offset_index import OffsetIndex
from sparklog.model import SegmentEntry
from sparklog.record.header import read_header
from sparklog.record.layout import BATCH_HEADER_SIZE
from sparklog.record.scan import scan_batches, verify_checksums
from sparklog.storage.files import Files

_BATCH_BYTES = 64 * 1024


def start_position(files: Files, directory: str, entry: SegmentEntry, offset: int) -> int:
    """Return the position of a batch at or before the one that holds `offset` (in the log).

    Found in the offset index; without one that is sound, the beginning of the file.
    """
    if offset <= entry.base_offset:
        return 0
    data = index_bytes(files, directory, entry.index_path, entry.index_bytes)
    if data is None:
        return 0
    wanted = offset - entry.shift
    position = OffsetIndex(data, entry.file_base_offset).lookup(wanted).position
    if position and not _is_batch_before(files, directory, entry, position, wanted):
        distrust(entry.index_path, f"no batch of offset {wanted} or less begins at {position}")
        return 0
    return position


def index_bytes(
    files: Files, directory: str, path: str | None, size: int | None
) -> memoryview | None:
    """Return an index file's bytes, None when there is none; a damaged one is warned of."""
    if path is None:
        return None
    try:
        data = files.view(f"{directory}/{path}")
    except MissingFileError:
        distrust(path, "the file is missing")
        return None
    if size is not None and len(data) != size:
        distrust(path, f"it has {len(data)} bytes, the manifest says {size}")
        return None
    return data


def distrust(path: str | None, why: str) -> None:
    """Warn that an index is not used."""
    warnings.warn(
        f"{path}: {why}; the segment is scanned instead (rebuild its indexes)",
        SparklogWarning,
        stacklevel=4,
    )


def _is_batch_before(
    files: Files, directory: str, entry: SegmentEntry, position: int, offset: int
) -> bool:
    """Whether a whole batch begins at `position` whose first offset in the file is <= `offset`."""
    room = entry.log_bytes - position
    if room < BATCH_HEADER_SIZE:
        return False
    data = files.view(f"{directory}/{entry.log_path}", min(room, _BATCH_BYTES), position)
    found = scan_batches(data, max_records=1)
    try:
        verify_checksums(data, found.batches)
    except CorruptRecordError:
        return False
    is_batch = len(found.batches) > 0 or is_cut(found.problem)  # cut: larger than what was read
    return is_batch and read_header(data).base_offset <= offset


def is_cut(problem: str | None) -> bool:
    """Whether a scan stopped because its bytes end inside a batch."""
    return problem is not None and problem.startswith("truncated")
