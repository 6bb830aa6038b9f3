"""Prints a `.log` or a `.checkpoint` as kafka-dump-log.sh does: batches, and records if `deep`."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sparklog.errors import CorruptRecordError, UsageError
from sparklog.interop.broker_files.file_records import FILE_BYTES_MAX, OddBatch, walk
from sparklog.interop.dumps.dump_batches import BatchPrinter, RecordText
from sparklog.record.batches import BatchTable, Buffer, byte_view

LOG: Final = ".log"
CHECKPOINT: Final = ".checkpoint"
BOOTSTRAP: Final = "bootstrap.checkpoint"
_SHARED_NAME: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.log")
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")

Text = bytes | memoryview


@dataclass(slots=True)
class Findings:
    """The problems that a dump has found; `complaints` are Kafka's lines for stderr, at the end.

    `problems` counts the damages of files. Gaps between offsets do not count, because compaction
    leaves gaps.
    """

    problems: int = 0
    mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    out_of_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Whether no problem was found."""
        lists = (self.mismatches, self.time_mismatches, self.out_of_order, self.not_found)
        return not self.problems and not any(lists)

    def complaints(self) -> Iterator[str]:
        """Yield the lines that Kafka's tool prints to stderr after the last file."""
        for file, pairs in self.mismatches.items():
            yield f"Mismatches in :{file}"
            # Kafka's tool prints mismatches and gaps in reverse order.
            yield from (f"  Index offset: {a}, log offset: {b}" for a, b in reversed(pairs))
        for file, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{file}"
            yield from (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs)
        for file, pairs in self.out_of_order.items():
            yield f"Found out of order timestamp in :{file}"
            yield from (
                f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs
            )
        for pairs in self.not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs)
        for file, pairs in self.gaps.items():
            yield f"Non-consecutive offsets in {file}"
            yield from (f"  {a} is followed by {b}" for a, b in reversed(pairs))


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """A file to dump: `path` as it is printed, `absolute` as complaints name it, and its bytes."""

    path: str
    absolute: str
    data: Buffer

    @property
    def printed(self) -> bytes:
        """The bytes of its path; a path may have bytes that are not UTF-8."""
        return os.fsencode(self.path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.absolute.rpartition("/")[2]

    @property
    def is_shared(self) -> bool:
        """Whether the name is a shared segment's. Its offsets start at 0 for each partition."""
        return _SHARED_NAME.fullmatch(self.name) is not None

    @property
    def base_offset(self) -> int:
        """The number in front of the first dot of its name. Raises UsageError if there is none."""
        return base_offset(self.name)


def base_offset(name: str) -> int:
    """Return the number before the first dot of a file name. Raises UsageError without one."""
    digits = name.partition(".")[0]
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", digits) or not -(2**63) <= int(digits) < 2**63:
        raise UsageError(f"{name}: a segment's file is named after its base offset, <digits>.<…>")
    return int(digits)


def dump_log(
    file: DumpedFile, text: RecordText, findings: Findings, max_bytes: int = FILE_BYTES_MAX
) -> Iterator[Text]:
    """Yield the printed lines of a `.log`, a shared segment or a `.checkpoint`.

    Where Kafka's tool ends with an exception, it raises CorruptRecordError naming file and
    position, after it has yielded the lines before the damage. Raises UsageError for a name without
    a base offset.
    """
    view = byte_view(file.data)
    yield _title(file)
    if len(view) > FILE_BYTES_MAX:
        raise CorruptRecordError(
            f"The size of segment {file.path} ({len(view)}) is larger than the maximum allowed "
            f"segment size of {FILE_BYTES_MAX}",
            file=file.path,
        )
    end = min(len(view), max_bytes)
    printer = BatchPrinter(view, text)
    walked = 0
    try:
        for found in walk(view, file.path, 0, end):
            walked = _end_of(found)
            yield from printer.odd(found) if isinstance(found, OddBatch) else printer.table(found)
    except CorruptRecordError as error:
        raise error.in_file(file.path) from None
    finally:
        findings.problems += printer.invalid
        if printer.offsets.gaps and not file.is_shared:
            findings.gaps.setdefault(file.absolute, []).extend(printer.offsets.gaps)
    if end > walked and max_bytes == FILE_BYTES_MAX:
        findings.problems += 1
        yield b"Found %d invalid bytes at the end of %s\n" % (end - walked, os.fsencode(file.name))


def _end_of(found: BatchTable | OddBatch) -> int:
    if isinstance(found, OddBatch):
        return found.position + found.size
    return int(np.int64(found.end_position[-1]))


def _title(file: DumpedFile) -> bytes:
    if file.is_shared:
        return b"Shared segment: offsets are the file's own, they start at 0 for each partition\n"
    if file.name.endswith(LOG):
        return f"Log starting offset: {file.base_offset}\n".encode()
    if file.name == BOOTSTRAP:
        return b"KRaft bootstrap snapshot\n"
    match = _SNAPSHOT_NAME.fullmatch(file.name)
    if match is None:
        raise UsageError(f"{file.path}: a snapshot is named <offset>-<epoch>{CHECKPOINT}")
    return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}\n".encode()
