"""Lag: how far a group is behind the end of a log, in records and in time.

    log     … 4 5 6 7 8 9                 lag in records   10 - 6 = 4
                  ▲       ▲               lag in time      now - the timestamp of record 6
         committed 6     ends at 10

A committed offset is the offset of the next record to read. If compaction has removed records,
fewer records than the lag are left to read. If retention has removed the next record, the lag in
time counts from the first record that is left.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sparklog.coordinator.lag_state import LagState
from sparklog.model import TopicPartition


class PartitionLag(NamedTuple):
    """The lag of a group in a partition that it has committed, or that one of its members reads.

    `current_offset` is None if nothing is committed; the log's offsets are None if the topic does
    not exist. `lag_ms` is None if it was not requested, or if the next record is damaged or has no
    timestamp. `state` is None if it was not requested, or if there is a lag and fewer than two
    commits are known.
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

    @property
    def lag_seconds(self) -> float | None:
        """The lag in seconds; None if `lag_ms` is None."""
        return None if self.lag_ms is None else self.lag_ms / 1000


def lag_of(committed: int | None, log_end_offset: int | None) -> int | None:
    """Return the lag in records, 0 or more; None if one of the two is unknown."""
    if committed is None or log_end_offset is None:
        return None
    return log_end_offset - committed if log_end_offset > committed else 0


def lag_ms_of(lag: int, timestamp: int | None, now_ms: int) -> int | None:
    """Return the lag in ms, given the timestamp of the next record to read.

    0 if the lag is 0, or if no record is left to read (`timestamp` is None); None if the record has
    no timestamp (-1).
    """
    if lag == 0 or timestamp is None:
        return 0
    return None if timestamp < 0 else max(now_ms - timestamp, 0)


def total_of(lags: Iterable[int | None]) -> int:
    """Return the sum of the known lags."""
    return sum(one for one in lags if one is not None)
