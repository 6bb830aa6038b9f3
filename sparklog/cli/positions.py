"""The beginning and the end of a consume: the grammar of `-o`, and times as people write them.

    start | beginning | earliest      the log start offset
    end | latest                      the log end offset
    N  +N  -N                         an offset; N after the start; N before the end
    @T  s@T  e@T                      the first record at or after T; e@ stops before it
    A:B  A:  :B  @T:T                 from A to before B

A time T is milliseconds since 1970, an ISO date or time (UTC unless it says otherwise), or a span
before now: -90s, -15m, -48h, -7d. Words, signs and ranges are kcat's and rpk's.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sparklog.config.times import time_ms
from sparklog.errors import InvalidOptionError
from sparklog.model import EARLIEST, LATEST, MAX_TIMESTAMP

_START_WORDS: Final = frozenset({"start", "beginning", "earliest"})
_END_WORDS: Final = frozenset({"end", "latest"})
_TIME_WORDS: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
}
_OFFSET: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)

GRAMMAR: Final = "start, end, N, +N, -N, @TIME, s@TIME, e@TIME, and ranges A:B or @TIME:TIME"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in every partition: `value` counts from start or end, or is a time in ms."""

    kind: Literal["offset", "start", "end", "time"]
    value: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` to before `end`; None is the start, or the end, of the log."""

    start: Position | None = None
    end: Position | None = None


def parse_spans(texts: Sequence[str], now_ms: int) -> Span:
    """Return the span of all options `-o` of a command line, such as `-o s@T -o e@T`.

    Spans before now count from `now_ms`. Raises InvalidOptionError for a text that is not in the
    grammar, and for a start or an end that is given twice.
    """
    start, end = None, None
    for text in texts:
        span = _parse_span(text, now_ms)
        if (start and span.start) or (end and span.end):
            raise InvalidOptionError(
                f"-o {text}: the offsets already have {'a start' if span.start else 'an end'}",
                option="offset",
            )
        start, end = start or span.start, end or span.end
    return Span(start, end)


def _parse_span(text: str, now_ms: int) -> Span:
    if text.startswith(("s@", "e@")):
        position = Position("time", parse_time(text[2:], now_ms))
        return Span(start=position) if text[0] == "s" else Span(end=position)
    if text.startswith("@"):
        return _time_span(text[1:], now_ms)
    first, colon, second = text.partition(":")
    if not text or (colon and not first and not second):
        raise _unknown(text)
    return Span(
        _parse_position(first, now_ms, text) if first else None,
        _parse_position(second, now_ms, text) if second else None,
    )


def _parse_position(text: str, now_ms: int, whole: str) -> Position:
    if text in _START_WORDS:
        return Position("start")
    if text in _END_WORDS:
        return Position("end")
    if text.startswith("@"):
        return Position("time", parse_time(text[1:], now_ms))
    if not _OFFSET.fullmatch(text):
        raise _unknown(whole)
    kind: Literal["offset", "start", "end"] = "offset"
    if text[0] in "+-":
        kind = "start" if text[0] == "+" else "end"
    return Position(kind, abs(int(text)))


def _time_span(text: str, now_ms: int) -> Span:
    """Return the span of `T` or `T:T`.

    An ISO time has colons, too: the first colon with a time on both sides divides.
    """
    if (whole := time_ms(text, now_ms)) is not None:
        return Span(start=Position("time", whole))
    for cut in re.finditer(":", text):
        start = time_ms(text[: cut.start()], now_ms)
        rest = text[cut.end() :].removeprefix("@")
        end = time_ms(rest, now_ms)
        if start is not None and (end is not None or rest in {"", *_END_WORDS}):
            return Span(Position("time", start), None if end is None else Position("time", end))
    raise _bad_time(text)


def parse_time(text: str, now_ms: int) -> int:
    """Return a time in ms since 1970, 0 or more. Raises InvalidOptionError for any other text."""
    found = time_ms(text, now_ms)
    if found is None:
        raise _bad_time(text)
    return found


def parse_list_time(text: str, now_ms: int) -> int:
    """Return the value of `--time` of get-offsets: -1, -2 or -3, also by word, or a time in ms.

    Raises InvalidOptionError.
    """
    if text in _TIME_WORDS:
        return _TIME_WORDS[text]
    if text in map(str, _TIME_WORDS.values()):
        return int(text)
    found = time_ms(text, now_ms)
    if found is None:
        raise _bad_time(text, f"{', '.join(_TIME_WORDS)}, ")
    return found


def resolve(position: Position, low: int, high: int, offset_at: Callable[[int], int]) -> int:
    """Return the offset of a position in one partition, within its log's [low, high].

    `offset_at` answers ListOffsets: the first record at or after a time, -1 for none.
    """
    if position.kind == "time":
        found = offset_at(position.value)
        return high if found < 0 else found
    offset = {
        "offset": position.value,
        "start": low + position.value,
        "end": high - position.value,
    }[position.kind]
    return min(max(offset, low), high)


def _unknown(text: str) -> InvalidOptionError:
    return InvalidOptionError(f"-o {text!r} is no offset; allowed: {GRAMMAR}", option="offset")


def _bad_time(text: str, words: str = "") -> InvalidOptionError:
    return InvalidOptionError(
        f"{text!r} is no time; allowed: {words}milliseconds since 1970, an ISO date or time "
        f"such as 2013-07-04T12:00, or a span before now such as -48h",
        option="time",
    )
