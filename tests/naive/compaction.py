"""Compaction with a dictionary: what must be left of a log, record by record."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.naive.records import Record


def superseded(keys: Sequence[bytes]) -> list[bool]:
    """For each key whether it comes again behind its place."""
    last = {key: place for place, key in enumerate(keys)}
    return [last[key] != place for place, key in enumerate(keys)]


@dataclass
class NaiveLog:
    """All records that are there, and for each tombstone that a compaction has seen its time."""

    delete_retention_ms: int
    records: list[Record] = field(default_factory=list)
    horizons: dict[int, int] = field(default_factory=dict)

    def compact(self, end_offset: int, now_ms: int) -> None:
        """Keep of each key below `end_offset` the latest record; tombstones until their time."""
        latest = {
            record.key: record.offset
            for record in self.records
            if record.offset < end_offset and record.key is not None
        }
        self.records = [
            record
            for record in self.records
            if record.offset >= end_offset
            or (latest.get(record.key) == record.offset and self._stays(record, now_ms))
        ]

    def _stays(self, record: Record, now_ms: int) -> bool:
        if record.value is not None:
            return True
        known = record.offset in self.horizons
        horizon = self.horizons.setdefault(record.offset, now_ms + self.delete_retention_ms)
        return not known or now_ms < horizon
