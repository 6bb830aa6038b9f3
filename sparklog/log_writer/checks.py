"""Checks of rows that a leader would refuse (LogValidator)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.errors import InvalidRecordError, InvalidTimestampError, UsageError
from sparklog.log_writer.plan import WritePlan

if TYPE_CHECKING:
    from sparklog.record.rows import RecordColumns


@contextmanager
def counted_from(place: str) -> Iterator[None]:
    """Add to a UsageError of the block that row 0 is `place`: each call numbers its rows from 0."""
    try:
        yield
    except UsageError as error:
        error.args = (f"{error} (row 0 is {place})",)
        raise


def takes_all_of_now(plan: WritePlan) -> bool:
    """Whether `check_rows` accepts all rows that have the plan's time as their timestamp."""
    return not plan.config.is_compacted


def check_rows(columns: "RecordColumns", plan: WritePlan) -> None:
    """Refuse rows that a leader would refuse (LogValidator); the present time is the plan's.

    Raises InvalidRecordError for a missing key in a compacted topic, InvalidTimestampError for a
    timestamp that is negative or too far from the present time.
    """
    if plan.config.is_compacted and columns.key.null_count:
        row = pc.index(pc.is_null(columns.key), True).as_py()
        raise InvalidRecordError(
            f"topic {plan.topic.name!r} is compacted, so every record needs a key: "
            f"the one in row {row} has none"
        )
    if plan.is_append_time or not len(columns.timestamp):
        return
    before = plan.config.message_timestamp_before_max_ms
    after = plan.config.message_timestamp_after_max_ms
    earliest = latest = int(columns.timestamp[0])
    if len(columns.timestamp) > 1:
        earliest, latest = int(columns.timestamp.min()), int(columns.timestamp.max())
    if earliest < 0:
        raise InvalidTimestampError(
            f"topic {plan.topic.name!r}: timestamp {earliest} in row "
            f"{_row_of(columns.timestamp, earliest)} is negative; allowed are milliseconds since "
            f"1970, from 0"
        )
    if plan.now_ms - earliest > before:
        _refuse_skew(plan, columns.timestamp, earliest, f"message.timestamp.before.max.ms={before}")
    if latest - plan.now_ms > after:
        _refuse_skew(plan, columns.timestamp, latest, f"message.timestamp.after.max.ms={after}")


def _refuse_skew(
    plan: WritePlan, timestamps: NDArray[np.int64], timestamp: int, limit: str
) -> None:
    raise InvalidTimestampError(
        f"topic {plan.topic.name!r}: timestamp {timestamp} in row {_row_of(timestamps, timestamp)} "
        f"is {abs(plan.now_ms - timestamp)} ms away from {plan.now_ms}; allowed by {limit}"
    )


def _row_of(timestamps: NDArray[np.int64], timestamp: int) -> int:
    return int(np.argmax(timestamps == timestamp))
