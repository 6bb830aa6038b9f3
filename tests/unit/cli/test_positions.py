"""The grammar of -o, times, and where positions are."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.cli.positions import (
    Position,
    Span,
    parse_list_time,
    parse_spans,
    parse_time,
    resolve,
)
from sparklog.errors import InvalidOptionError

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
JULY_4 = 1_372_896_000_000  # 2013-07-04T00:00Z


def at(value: int) -> Position:
    return Position("time", value)


def offset_at(time_ms: int) -> int:
    """ListOffsets of a log with offsets 10 to 19; offset N has the timestamp 100 * N."""
    offset = max(10, -(-time_ms // 100))
    return offset if offset < 20 else -1


class TestSpans:
    @pytest.mark.parametrize(
        ("text", "span"),
        [
            ("start", Span(Position("start"))),
            ("beginning", Span(Position("start"))),
            ("earliest", Span(Position("start"))),
            ("end", Span(Position("end"))),
            ("latest", Span(Position("end"))),
            ("5", Span(Position("offset", 5))),
            ("+5", Span(Position("start", 5))),
            ("-5", Span(Position("end", 5))),
            ("5:9", Span(Position("offset", 5), Position("offset", 9))),
            ("5:", Span(Position("offset", 5))),
            (":9", Span(None, Position("offset", 9))),
            ("-5:-1", Span(Position("end", 5), Position("end", 1))),
            ("+1:end", Span(Position("start", 1), Position("end"))),
            ("5:@7", Span(Position("offset", 5), at(7))),
            ("@7", Span(at(7))),
            ("s@7", Span(at(7))),
            ("e@7", Span(None, at(7))),
            ("@7:9", Span(at(7), at(9))),
            ("@7:@9", Span(at(7), at(9))),
            ("@7:", Span(at(7))),
            ("@7:end", Span(at(7))),
            ("@-2d:-1d", Span(at(NOW_MS - 2 * DAY_MS), at(NOW_MS - DAY_MS))),
            ("@2013-07-04", Span(at(JULY_4))),
            ("@2013-07-04T01:00", Span(at(JULY_4 + 3_600_000))),
            ("@2013-07-04T00:00:2013-07-05", Span(at(JULY_4), at(JULY_4 + DAY_MS))),
            ("@2013-07-04T00:00:00Z:@2013-07-04T00:00:01Z", Span(at(JULY_4), at(JULY_4 + 1000))),
            ("@2013-07-04T02:00+02:00", Span(at(JULY_4))),
        ],
    )
    def test_one_text(self, text: str, span: Span) -> None:
        assert parse_spans([text], NOW_MS) == span

    def test_none_is_everything(self) -> None:
        assert parse_spans([], NOW_MS) == Span()

    def test_a_start_and_an_end_may_be_given_apart(self) -> None:
        assert parse_spans(["e@9", "s@7"], NOW_MS) == Span(at(7), at(9))

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            (["1", "2"], "-o 2: the offsets already have a start"),
            (["1:2", "e@7"], "-o e@7: the offsets already have an end"),
        ],
    )
    def test_neither_may_be_given_twice(self, texts: list[str], message: str) -> None:
        with pytest.raises(InvalidOptionError, match=message):
            parse_spans(texts, NOW_MS)

    @pytest.mark.parametrize(
        "text",
        ["", ":", "soon", "1-2", "--1", "1:x", "1.5", "@", "@x", "@7:x", "@:7", "s@", "e@soon",
         "@1969-12-31", "²"],
    )  # fmt: skip
    def test_what_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidOptionError, match="allowed: "):
            parse_spans([text], NOW_MS)

    @given(st.text(max_size=20))
    @example("@9999-12-31T23:59:59-23:59")
    @example("@0001-01-01T00:00+01:00")
    def test_whatever_is_typed_is_a_span_or_refused(self, text: str) -> None:
        """Goal: no other error leaves the parser. Method: any text."""
        try:
            span = parse_spans([text], NOW_MS)
        except InvalidOptionError:
            return

        assert span.start or span.end


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "ms"),
        [
            ("0", 0),
            ("-500ms", NOW_MS - 500),
            ("-90s", NOW_MS - 90_000),
            ("-15m", NOW_MS - 900_000),
            ("-48h", NOW_MS - 2 * DAY_MS),
            ("-99999d", 0),
            ("20130704", 20130704),
            ("1970-01-01T00:00:00.123456", 123),
        ],
    )
    def test_times(self, text: str, ms: int) -> None:
        assert parse_time(text, NOW_MS) == ms

    @pytest.mark.parametrize(
        ("text", "ms"),
        [("-1", -1), ("latest", -1), ("-2", -2), ("earliest", -2), ("-3", -3),
         ("max-timestamp", -3), ("7", 7), ("-1h", NOW_MS - 3_600_000)],
    )  # fmt: skip
    def test_get_offsets_knows_kafkas_words(self, text: str, ms: int) -> None:
        assert parse_list_time(text, NOW_MS) == ms

    def test_a_time_that_is_none_is_refused(self) -> None:
        with pytest.raises(InvalidOptionError, match="'-4' is no time"):
            parse_list_time("-4", NOW_MS)


class TestResolve:
    @pytest.mark.parametrize(
        ("position", "offset"),
        [
            (Position("start"), 10),
            (Position("start", 3), 13),
            (Position("start", 99), 20),
            (Position("end"), 20),
            (Position("end", 3), 17),
            (Position("end", 99), 10),
            (Position("offset", 0), 10),
            (Position("offset", 15), 15),
            (Position("offset", 99), 20),
            (at(0), 10),
            (at(1501), 16),
            (at(1901), 20),
        ],
    )
    def test_positions_lie_within_the_log(self, position: Position, offset: int) -> None:
        assert resolve(position, 10, 20, offset_at) == offset
