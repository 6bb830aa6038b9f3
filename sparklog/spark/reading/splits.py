"""Cuts offset ranges for parallelism, as Spark's KafkaOffsetRangeCalculator.

1. ranges that are empty are dropped
2. maxRecordsPerPartition cuts each range into ceil(size / max) pieces
3. still fewer than minPartitions: each range wants max(round(size / total * min), 1) pieces;
those that want one stay whole, the others share what is left in proportion
4. n pieces of a range: each takes remaining // pieces left, so the last takes the rest
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparklog.spark.reading.plan import ReadRange


def split_ranges(
    ranges: Sequence["ReadRange"], min_partitions: int | None, max_records: int | None
) -> list["ReadRange"]:
    """Return the ranges, cut as `minPartitions` and `maxRecordsPerPartition` ask, in order."""
    pieces = [one for one in ranges if one.size > 0]
    if max_records is not None:
        pieces = [part for one in pieces for part in _cut(one, -(-one.size // max_records))]
    if min_partitions is None or len(pieces) >= min_partitions or not pieces:
        return pieces
    total = sum(one.size for one in pieces)
    # As in the connector: if one piece of a partition stays whole, all its pieces do.
    whole = {_place(one) for one in pieces if _share(one.size, total, min_partitions) == 1}
    split = [one for one in pieces if _place(one) not in whole]
    split_total = sum(one.size for one in split)
    wanted = max(min_partitions - (len(pieces) - len(split)), 1)
    result = []
    for one in pieces:
        count = 1 if _place(one) in whole else _share(one.size, split_total, wanted)
        result += _cut(one, count)
    return result


def join_ranges(
    ranges: Sequence["ReadRange"], bytes_of: Callable[["ReadRange"], int], max_bytes: int
) -> list[list["ReadRange"]]:
    """Return the ranges in order, small neighbours together, up to about `max_bytes` a group."""
    groups: list[list[ReadRange]] = []
    room = 0
    for one in ranges:
        size = bytes_of(one)
        if size > room:
            groups.append([])
            room = max_bytes
        groups[-1].append(one)
        room -= size
    return groups


def _place(one: "ReadRange") -> tuple[str, int]:
    return one.topic, one.partition


def _share(size: int, total: int, count: int) -> int:
    """Return max(round(size / total * count), 1); Java rounds halves up."""
    return max(int(size / total * count + 0.5), 1)


def _cut(one: "ReadRange", count: int) -> list["ReadRange"]:
    pieces, start = [], one.start
    for index in range(count):
        size = (one.end - start) // (count - index)
        if size:
            pieces.append(replace(one, start=start, end=start + size))
        start += size
    return pieces
