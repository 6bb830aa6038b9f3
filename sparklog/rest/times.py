"""Times in requests: milliseconds since 1970, ISO 8601, and ListOffsets' -1, -2 and -3."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from sparklog.config.times import iso_ms
from sparklog.model import EARLIEST, LATEST, MAX_TIMESTAMP
from sparklog.rest.errors import ApiError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER_MIN: Final = min(LATEST, EARLIEST, MAX_TIMESTAMP)
_NUMBER_MAX: Final = 2**63 - 1


def parse_time(text: str | int) -> int:
    """Return a time in ms, or -1 to -3, as ListOffsets takes it. Raises ApiError (422).

    An ISO time before 1970 becomes 0: no record is older.
    """
    is_number = isinstance(text, int) or _NUMBER.fullmatch(text)
    return exact_time(text) if is_number else max(0, exact_time(text))


def exact_time(text: str | int) -> int:
    """Return a time in ms: an ISO time before 1970 is negative. Raises ApiError (422)."""
    if isinstance(text, int) or _NUMBER.fullmatch(text):
        number = int(text)
        if not _NUMBER_MIN <= number <= _NUMBER_MAX:
            raise ApiError(422, f"timestamp {number}: allowed are {_NUMBER_MIN} to {_NUMBER_MAX}")
        return number
    # A plus sign in a query is decoded as a space.
    found = iso_ms(text.replace(" ", "+") if "T" in text else text)
    if found is None:
        raise ApiError(422, f"timestamp {text[:40]!r} is neither milliseconds nor an ISO 8601 time")
    return found


def iso_time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601 in UTC; "" if it is negative or after the year 9999."""
    try:
        # A float of seconds would be a millisecond off, from the year 2106 on.
        found = _EPOCH + timedelta(milliseconds=timestamp_ms) if timestamp_ms >= 0 else None
    except OverflowError:
        return ""
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z") if found else ""
