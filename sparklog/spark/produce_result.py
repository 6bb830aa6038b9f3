"""The answer of a produce."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparklog.model import OffsetRange, TopicPartition


@dataclass(frozen=True)
class ProduceResult:
    """The result of a produce.

    `ranges` holds the offsets of each partition that got records. `replayed` are the topics in
    which this write had landed before (by txnAppId and txnVersion). `forgotten` are those of them
    whose offsets are no longer known.
    """

    ranges: Mapping[TopicPartition, OffsetRange]
    replayed: frozenset[str] = field(default_factory=frozenset)
    forgotten: frozenset[str] = field(default_factory=frozenset)

    @property
    def count(self) -> int:
        """The number of offsets taken: one for each record, and those in gaps (allowOffsetGaps)."""
        return sum(got.span for got in self.ranges.values())
