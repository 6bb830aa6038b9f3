"""A small language for a compacted partition: put records, let time pass, compact, look.

log = Compacted(); log.put("a=1", "b=2").put("a=3").put("z"); log.compact(); log.shown() == "b=2 a=3 z"

A record is written `key=value`; `key` alone is a tombstone, `=value` a record without a key. Each
`put` is one segment of one batch, each record a millisecond later than the one before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sparklog.maintenance.compact import compact
from sparklog.maintenance.fleet import LocalFleet
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.model import Codec, TimestampType
from sparklog.record.encode import BatchSettings, RecordColumns, encode
from tests.maintenance import OneTopic
from tests.naive.records import Record, binary_column, header_column, timestamps
from tests.partitions import Partition

COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}
T0 = 1_600_000_000_000


def parsed(text: str) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record as it is written here."""
    key, equals, value = text.partition("=")
    return key.encode() or None, value.encode() if equals else None


def shown(record: Record) -> str:
    """A record as it is written here."""
    key = "" if record.key is None else record.key.decode()
    return key if record.value is None else f"{key}={record.value.decode()}"


def keyed_batch(
    *texts: str,
    codec: Codec = Codec.NONE,
    time: int = T0,
    append_time: int | None = None,
    batch_bytes: int = 2**20,
) -> Callable[[int], bytes]:
    """A batch of such records (several if they exceed `batch_bytes`); odd ones have a header."""

    def at(offset: int) -> bytes:
        records = [
            Record(offset + n, time + n, *parsed(text), (("h", b"x"),) * (n % 2))
            for n, text in enumerate(texts)
        ]
        settings = BatchSettings(codec, batch_bytes=batch_bytes)
        if append_time is not None:
            kind = TimestampType.LOG_APPEND_TIME
            settings = replace(settings, timestamp_type=kind, log_append_time_ms=append_time)
        columns = RecordColumns(
            binary_column(record.key for record in records),
            binary_column(record.value for record in records),
            timestamps(records),
            header_column(records),
        )
        (stream,) = encode(columns, None, 1, np.array([offset]), settings)
        return bytes(stream.data)

    return at


class Compacted:
    """One compacted partition, its clock, and the jobs that run over it."""

    def __init__(self, **configs: Any) -> None:
        self.partition = Partition()
        given = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.catalog = OneTopic(self.partition, COMPACTED | given)
        self.time = T0

    def put(self, *texts: str, sealed: bool = False, **options: Any) -> Self:
        """Append a segment."""
        piece = keyed_batch(*texts, time=self.time, **options)
        self.partition.append(piece, sealed=sealed)
        self.time += len(texts)
        return self

    def wait(self, ms: int) -> Self:
        """Let time pass."""
        self.catalog.clock.advance(ms)  # type: ignore[attr-defined] # a ManualClock
        return self

    @property
    def now_ms(self) -> int:
        return self.catalog.clock.now_ms()

    @property
    def context(self) -> JobContext:
        return JobContext(self.catalog, LocalFleet())

    def compact(self, *, force: bool = True) -> Outcome | None:
        """Run the job; None when there was nothing to do."""
        outcomes = [step.execute() for step in compact(self.context, [], {"force": force})]
        return outcomes[0] if outcomes else None

    def plan(self, **options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """What the job would do."""
        return [row for step in compact(self.context, [], options) for row in step.rows]

    @property
    def records(self) -> list[Record]:
        """What a reader gets."""
        return self.partition.read()

    def shown(self) -> str:
        """The same, as it is written here."""
        return " ".join(shown(record) for record in self.records)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The offsets of each segment."""
        return [(entry.base_offset, entry.next_offset) for entry in self.partition.segments]
