"""The answer of a produce."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparklog.model import OffsetRange, TopicPartition


@dataclass(frozen=True)
class ProduceResult:
    """The result of a produce.

    `ranges` has the offsets of each partition that got records. `replayed` are the topics that had
    this write already (by txnAppId and txnVersion): nothing was written to them, and their ranges
    are those of the first write. `forgotten` are the replayed topics whose ranges are not known any
    more.
    """

    ranges: Mapping[TopicPartition, OffsetRange]
    replayed: frozenset[str] = field(default_factory=frozenset)
    forgotten: frozenset[str] = field(default_factory=frozenset)

    @property
    def count(self) -> int:
        """The number of offsets taken: one for each record, and those in gaps (allowOffsetGaps)."""
        return sum(got.span for got in self.ranges.values())

    def __str__(self) -> str:
        """Return a line for each partition: `flights-0: offsets [0, 250)`, then replayed topics."""
        lines = [
            f"{place}: offsets [{got.start}, {got.end})"
            for place, got in sorted(self.ranges.items())
        ]
        lines += [f"{topic}: written before" for topic in sorted(self.replayed)]
        return "\n".join(lines) or "no records"
