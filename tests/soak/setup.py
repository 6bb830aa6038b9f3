"""What every process of a run knows, and the topics they all work on."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.soak.history import Journal

TOPIC: Final = "soak"
REVISION: Final = "min.compaction.lag.ms"
"""A config that changes nothing here: it counts the administrator's alterations."""
PARTITIONS: Final = 3
PARTITIONS_MAX: Final = 8
RETENTION_BYTES: Final = 100_000
RECORD_BYTES_MAX: Final = 400
"""More than any record takes, with a batch of its own."""
RETAINED: Final = RETENTION_BYTES // RECORD_BYTES_MAX
"""How many records of each partition retention may not touch."""
KEYED: Final = "keyed"
"""The compacted topic."""
KEYED_PARTITIONS: Final = 2
GRACE_MS: Final = 6_000
"""How long a reader's plan stays good, and longer than any pause; then vacuum comes."""
DELAYS: Final[dict[str, object]] = {
    "file.delete.delay.ms": 500,
    "sparklog.reader.grace.ms": GRACE_MS,
    "sparklog.orphan.retention.ms": 2 * GRACE_MS,
    "segment.bytes": 1 << 20,
}
CONFIGS: Final[dict[str, object]] = {**DELAYS, "retention.bytes": RETENTION_BYTES}
KEYED_CONFIGS: Final[dict[str, object]] = {
    **DELAYS,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.05,
    "delete.retention.ms": 1_000,
}


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a process: who it is, how often it was born before, and until when it may run.

    `deadline` is in seconds of the monotonic clock. `settles` makes a producer finish what it had
    begun and stop.
    """

    folder: Path
    seed: int
    name: str
    number: int
    birth: int
    deadline: float
    settles: bool = False

    @property
    def log_dir(self) -> str:
        """Where the log lies."""
        return str(self.folder / "log")

    def catalog(self) -> Catalog:
        """The log dir, opened by this process."""
        return Catalog(open_files(self.log_dir))

    def journal(self) -> Journal:
        """What this process has written down in its earlier lives."""
        return Journal(self.folder / f"{self.name}.jsonl")

    def draws(self, *what: int) -> random.Random:
        """What this life decides by chance, or, with `what`, what all lives decide alike."""
        return random.Random(f"{self.seed}/{self.name}/{what or f'birth {self.birth}'}")
