"""The answer of a produce."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparklog.model import OffsetRange, TopicPartition


@dataclass(frozen=True)
class ProduceResult:
    """What a produce got.

    `ranges` holds the offsets of each partition that got records. `replayed` are the topics that
    had this write already (by txnAppId and txnVersion); those in `forgotten` had it so long ago
    that their offsets are no longer known.
    """

    ranges: Mapping[TopicPartition, OffsetRange]
    replayed: frozenset[str] = field(default_factory=frozenset)
    forgotten: frozenset[str] = field(default_factory=frozenset)

    @property
    def count(self) -> int:
        """How many offsets were taken: one a record, and those left out by allowOffsetGaps."""
        return sum(got.span for got in self.ranges.values())
