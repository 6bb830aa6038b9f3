"""Runs `kafka.tools.DumpLogSegments` over our files and reads what it prints.

The tool takes the base offset from the digits before the first dot and, for its index checks, looks
for `<stem>.log` and `<stem>.index` beside an index: each segment therefore gets a folder of its own
with hard links under canonical names. An index without entries is a 0-byte file there, as a broker
leaves it. One JVM dumps any number of segments.

Keys and values are printed as text, so only printable ones (without a newline) come back as they
were; of binary ones the sizes do.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.jars import KAFKA, SHORT_LIVED, class_path, java

DUMP_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of one segment, under whatever names; `None` is an index without entries."""

    base_offset: int
    log: Path
    index: Path | None = None
    time_index: Path | None = None


def segment_files(log: Path) -> SegmentFiles:
    """The segment of a `.log` with a canonical name, its indexes beside it where they exist."""
    index, time_index = log.with_suffix(".index"), log.with_suffix(".timeindex")
    return SegmentFiles(
        base_offset=int(log.stem),
        log=log,
        index=index if index.exists() else None,
        time_index=time_index if time_index.exists() else None,
    )


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """One `|` line. Sizes are -1 for null; `key` and `value` are None for null."""

    offset: int
    timestamp_type: str
    timestamp: int
    key_size: int
    value_size: int
    sequence: int
    header_keys: tuple[str, ...]
    key: str | None
    value: str | None
    is_valid: bool
    marker: str | None


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """One batch line (magic 2 only) and the records under it."""

    base_offset: int
    last_offset: int
    count: int
    base_sequence: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    position: int
    timestamp_type: str
    max_timestamp: int
    size: int
    magic: int
    codec: str
    crc: int
    is_valid: bool
    records: tuple[DumpedRecord, ...]


@dataclass(frozen=True, slots=True)
class SegmentDump:
    """What the tool says of one segment.

    `complaints` are the lines about it on stderr (mismatches, gaps, out of order entries);
    `invalid_bytes` what is left after the last whole batch.
    """

    starting_offset: int
    batches: tuple[DumpedBatch, ...]
    index: tuple[tuple[int, int], ...]
    time_index: tuple[tuple[int, int], ...]
    invalid_bytes: int
    complaints: tuple[str, ...]

    @property
    def records(self) -> tuple[DumpedRecord, ...]:
        """The records of all batches, in file order."""
        return tuple(record for batch in self.batches for record in batch.records)


def dump_segments(segments: Sequence[SegmentFiles]) -> list[SegmentDump]:
    """One SegmentDump per segment, in order.

    Raises RuntimeError when the tool fails, or complains about something that is none of the files.
    """
    with tempfile.TemporaryDirectory() as scratch:
        stems = [_link(files, Path(scratch) / str(i)) for i, files in enumerate(segments)]
        outs, errs = _run([f"{stem}{end}" for stem in stems for end in _SUFFIXES])
        return [_segment_dump(str(stem), outs, errs) for stem in stems]


def assert_sound(dump: SegmentDump) -> None:
    """Fails unless every batch and record is valid and the tool has nothing to complain about."""
    assert dump.complaints == ()
    assert dump.invalid_bytes == 0
    assert [batch.base_offset for batch in dump.batches if not batch.is_valid] == []
    assert [record.offset for record in dump.records if not record.is_valid] == []


_SUFFIXES = (".log", ".index", ".timeindex")


def _link(files: SegmentFiles, folder: Path) -> Path:
    folder.mkdir()
    stem = folder / f"{files.base_offset:020d}"
    for source, suffix in zip((files.log, files.index, files.time_index), _SUFFIXES, strict=True):
        target = Path(f"{stem}{suffix}")
        if source is None:
            target.touch()
            continue
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copyfile(source, target)
    return stem


def _run(files: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """What the tool printed: lines of stdout by file, and the lines of stderr."""
    command = [java(), "-Xmx512M", *SHORT_LIVED]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dfile.encoding=UTF-8"]
    command += ["-cp", class_path(KAFKA), "kafka.tools.DumpLogSegments"]
    command += ["--deep-iteration", "--print-data-log", "--files", ",".join(files)]
    run = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=DUMP_TIMEOUT_S, check=False
    )
    if run.returncode != 0:
        raise RuntimeError(f"DumpLogSegments failed:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    sections: dict[str, list[str]] = {}
    for line in run.stdout.split("\n"):
        if line.startswith("Dumping "):
            sections[line.removeprefix("Dumping ")] = lines = []
        elif line:
            lines.append(line)
    return sections, run.stderr.splitlines()


def _segment_dump(stem: str, outs: dict[str, list[str]], errs: Sequence[str]) -> SegmentDump:
    log = outs[f"{stem}.log"]
    invalid = [line for line in log if line.startswith("Found ")]
    return SegmentDump(
        starting_offset=int(log[0].removeprefix("Log starting offset: ")),
        batches=tuple(_batches(line for line in log[1:] if line not in invalid)),
        index=_entries(outs[f"{stem}.index"]),
        time_index=_entries(outs[f"{stem}.timeindex"]),
        invalid_bytes=sum(int(line.split()[1]) for line in invalid),
        complaints=tuple(_complaints(stem, errs)),
    )


def _complaints(stem: str, errs: Sequence[str]) -> Iterator[str]:
    """The lines of stderr about one segment: a title that names its file, and the details below.

    A line that names no file at all is about every segment.
    """
    ours = True
    scratch = str(Path(stem).parents[1])
    for line in errs:
        if not line.startswith((" ", "Indexed offset")):
            ours = stem in line or scratch not in line
        if ours:
            yield line.strip()


_ENTRY = re.compile(r"(?:offset|timestamp): (-?\d+) (?:position|offset): (-?\d+)")


def _entries(lines: Sequence[str]) -> tuple[tuple[int, int], ...]:
    found = (_ENTRY.fullmatch(line) for line in lines)
    return tuple((int(entry[1]), int(entry[2])) for entry in found if entry)


_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) count: (?P<count>\d+)"
    r" baseSequence: (?P<base_sequence>-?\d+) lastSequence: -?\d+"
    r" producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+)"
    r" partitionLeaderEpoch: (?P<leader_epoch>-?\d+)"
    r" isTransactional: (?P<is_transactional>\w+) isControl: (?P<is_control>\w+)"
    r" deleteHorizonMs: (?:OptionalLong\.empty|OptionalLong\[(?P<delete_horizon_ms>\d+)\])"
    r" position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+)"
    r" size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<codec>\w+)"
    r" crc: (?P<crc>\d+) isvalid: (?P<is_valid>\w+)"
)
_TEXT = {"timestamp_type", "codec"}
_FLAGS = {"is_transactional", "is_control", "is_valid"}


def _batches(lines: Iterator[str]) -> Iterator[DumpedBatch]:
    head: re.Match[str] | None = None
    records: list[DumpedRecord] = []
    for line in lines:
        if line.startswith("|"):
            records.append(_record(line))
            continue
        if head is not None:
            yield _batch(head, records)
        head, records = _BATCH.fullmatch(line), []
        if head is None:
            raise RuntimeError(f"DumpLogSegments printed a line that is no batch: {line!r}")
    if head is not None:
        yield _batch(head, records)


def _batch(head: re.Match[str], records: Sequence[DumpedRecord]) -> DumpedBatch:
    fields: dict[str, str | bool | int | None] = {}
    for name, text in head.groupdict().items():
        if name in _TEXT:
            fields[name] = text
        elif name in _FLAGS:
            fields[name] = text == "true"
        else:
            fields[name] = None if text is None else int(text)
    return DumpedBatch(records=tuple(records), **fields)  # type: ignore[arg-type]  # by the pattern


_RECORD = re.compile(
    r"\| offset: (?P<offset>-?\d+) (?P<type>\w+): (?P<timestamp>-?\d+)"
    r" keySize: (?P<key>-?\d+) valueSize: (?P<value>-?\d+) sequence: (?P<sequence>-?\d+)"
    r" headerKeys: \[(?P<headers>[^\]]*)\](?P<rest>.*)"
)


def _record(line: str) -> DumpedRecord:
    found = _RECORD.fullmatch(line)
    if found is None:
        raise RuntimeError(f"DumpLogSegments printed a line that is no record: {line!r}")
    rest = found["rest"]
    marker = rest.removeprefix(" endTxnMarker: ") if " endTxnMarker: " in rest else None
    key, rest = _field(rest, " key: ", -1 if marker else int(found["key"]))
    value, rest = _field(rest, " payload: ", -1 if marker else int(found["value"]))
    return DumpedRecord(
        offset=int(found["offset"]),
        timestamp_type=found["type"],
        timestamp=int(found["timestamp"]),
        key_size=int(found["key"]),
        value_size=int(found["value"]),
        sequence=int(found["sequence"]),
        header_keys=tuple(found["headers"].split(",")) if found["headers"] else (),
        key=key,
        value=value,
        is_valid=True,
        marker=marker,
    )


def _field(rest: str, title: str, size: int) -> tuple[str | None, str]:
    """Take `<title><size bytes of text>` off the front of `rest`; None when the size is -1."""
    if size < 0:
        return None, rest
    data = rest.removeprefix(title).encode()
    return data[:size].decode(errors="replace"), data[size:].decode(errors="replace")
