"""Times as people write them: milliseconds since 1970, ISO dates and times, spans before now."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)", re.ASCII)
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def time_ms(text: str, now_ms: int) -> int | None:
    """Return the time `text` in ms since 1970; None if it is not a time, or one before 1970.

    `text` is a number of ms since 1970, an ISO date or time (UTC unless it names a zone), or a span
    before `now_ms` (ms since 1970) such as -48h, in ms, s, m, h or d; a longer span gives 0.
    """
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return int(text)
    if text.startswith("-") and (span := span_ms(text[1:])) is not None:
        return max(0, now_ms - span)
    ms = iso_ms(text)
    return ms if ms is not None and ms >= 0 else None


def span_ms(text: str) -> int | None:
    """Return a span of time such as 48h, in ms, s, m, h or d, as ms; None if it is none."""
    span = _SPAN.fullmatch(text)
    return None if span is None else int(span[1]) * _UNIT_MS[span[2]]


def iso_ms(text: str) -> int | None:
    """Return an ISO date or time in ms since 1970, UTC unless it names a zone; None if it is none.

    A time before 1970 is negative. A year above 9999 is no ISO time here, though Spark writes such
    years in Delta's statistics: "+12345-01-01T00:00:00.000Z".
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def iso_time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601 in UTC; "" if it is negative or after the year 9999."""
    try:
        # A float of seconds would be a millisecond off, from the year 2106 on.
        found = _EPOCH + timedelta(milliseconds=timestamp_ms) if timestamp_ms >= 0 else None
    except OverflowError:
        return ""
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z") if found else ""
