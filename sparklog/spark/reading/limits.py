"""How many new offsets a micro-batch takes: the connector's admission control.

Source: org.apache.spark.sql.kafka010.KafkaMicroBatchStream (rateLimit, delayBatch).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final

from sparklog.config.options import DURATION
from sparklog.errors import InvalidOptionError
from sparklog.model import TopicPartition

Offsets = Mapping[TopicPartition, int]

_UNIT_MS: Final[dict[str, Fraction | int]] = {
    "us": Fraction(1, 1000),
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a stream's options; None sets no limit."""

    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Limits":
        """Return the limits of parsed STREAM_OPTIONS. Raises InvalidOptionError."""
        limits = cls(
            options["maxOffsetsPerTrigger"],
            options["minOffsetsPerTrigger"],
            milliseconds(options["maxTriggerDelay"]),
        )
        if limits.max_offsets is not None and (limits.min_offsets or 0) > limits.max_offsets:
            raise InvalidOptionError(
                f"option minOffsetsPerTrigger={limits.min_offsets} is above "
                f"maxOffsetsPerTrigger={limits.max_offsets}",
                option="minOffsetsPerTrigger",
            )
        return limits

    def waits(self, start: Offsets, end: Offsets, since_last_ms: int) -> bool:
        """Whether a micro-batch must wait: too few new offsets, and the last batch was recent."""
        if self.min_offsets is None or since_last_ms >= self.max_delay_ms:
            return False
        return sum(_sizes(start, end).values()) < self.min_offsets

    def cut(self, start: Offsets, end: Offsets) -> Offsets:
        """Return where a micro-batch ends: each partition gets its share of `max_offsets`.

        A share below one offset is one offset, any other is rounded down, so many small partitions
        may exceed the limit together.
        """
        sizes = _sizes(start, end)
        total = sum(sizes.values())
        if self.max_offsets is None or total == 0:
            return end
        return {
            key: start.get(key, 0) + min(_share(self.max_offsets, sizes[key], total), sizes[key])
            if sizes[key]
            else offset
            for key, offset in end.items()
        }


def _sizes(start: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    return {key: max(offset - start.get(key, 0), 0) for key, offset in end.items()}


def _share(limit: int, size: int, total: int) -> int:
    share = Fraction(limit * size, total)
    return ceil(share) if share < 1 else floor(share)


def milliseconds(text: str) -> int:
    """Return the milliseconds of a DURATION such as 15m or 90s (JavaUtils.timeStringAsMs)."""
    match = re.fullmatch(DURATION, text)
    assert match is not None  # noqa: S101 - the option takes no other text
    return int(int(match[1]) * _UNIT_MS[match[2] or "ms"])
