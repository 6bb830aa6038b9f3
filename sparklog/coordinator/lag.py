"""Lag: how far a group is behind the end of a log, in records and in time.

    log     … 4 5 6 7 8 9                 lag in records   10 - 6 = 4
                  ▲       ▲               lag in time      now - the timestamp of record 6
         committed 6     ends at 10

A committed offset is that of the next record to read. Compaction may have removed records, so fewer
records than the lag may be left to read. If retention has removed the next record, the lag in time
counts from the first record that is left.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sparklog.coordinator.lag_state import LagState
from sparklog.model import TopicPartition


class PartitionLag(NamedTuple):
    """A partition that a group has committed, or one of its members reads.

    `current_offset` is None if nothing is committed; the log's offsets are None if the topic does
    not exist (any more). `lag_ms` and `state` are None if they were not asked for. `lag_ms` is
    None, too, if the record has no time; `state`, if there is a lag and too few commits for a
    window.
    """

    partition: TopicPartition
    current_offset: int | None
    leader_epoch: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_ms: int | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    state: LagState | None = None


def lag_of(committed: int | None, log_end_offset: int | None) -> int | None:
    """Return the lag in records: never negative; None where one of the two is not known."""
    if committed is None or log_end_offset is None:
        return None
    return log_end_offset - committed if log_end_offset > committed else 0


def lag_ms_of(lag: int, timestamp: int | None, now_ms: int) -> int | None:
    """Return the lag in time, given the timestamp of the next record to read.

    0 when the lag is 0, or when no record is left to read (`timestamp` is None); None for a record
    without a time (-1).
    """
    if lag == 0 or timestamp is None:
        return 0
    return None if timestamp < 0 else max(now_ms - timestamp, 0)


def total_of(lags: Iterable[int | None]) -> int:
    """Return the sum of lags, of those that are known."""
    return sum(one for one in lags if one is not None)
