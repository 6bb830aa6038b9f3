"""Where a read begins and ends, as the connector's options say it."""

import json
from typing import Any

import pytest

from sparklog.config.options import CONSUME_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError
from sparklog.model import EARLIEST, LATEST, TopicPartition
from sparklog.spark.reading.offsets import Bound, Bounds, parse_assign, parse_bounds
from sparklog.spark.reading.position import Position
from sparklog.spark.reading.waiting import WAITING


def bounds(side: str, **options: object) -> Bounds:
    parsed: dict[str, Any] = parse_options(CONSUME_OPTIONS, options)[0]
    return parse_bounds(parsed, side)


def at(found: Bounds, partition: int, topic: str = "t") -> Bound:
    return found.of(TopicPartition(topic, partition))


class TestOffsets:
    def test_are_everything_by_default(self) -> None:
        assert at(bounds("starting"), 0) == Bound(EARLIEST)
        assert at(bounds("ending"), 0) == Bound(LATEST)

    def test_may_be_a_word(self) -> None:
        assert at(bounds("starting", startingOffsets=" Earliest "), 0) == Bound(EARLIEST)
        assert at(bounds("ending", endingOffsets="LATEST"), 0) == Bound(LATEST)

    def test_may_be_named_by_partition(self) -> None:
        found = bounds("starting", startingOffsets='{"t": {"0": 23, "1": -2}}')

        assert [at(found, 0), at(found, 1)] == [Bound(23), Bound(EARLIEST)]

    def test_that_are_not_named_have_the_default(self) -> None:
        assert at(bounds("starting", startingOffsets='{"t": {"0": 23}}'), 1) == Bound(EARLIEST)
        assert at(bounds("ending", endingOffsets='{"t": {"0": 23}}'), 0, "u") == Bound(LATEST)

    def test_may_be_given_for_all_others(self) -> None:
        given = '{"t": {"0": 23, "*": 7}}'
        found = bounds("starting", startingOffsets=given)

        assert [at(found, 0), at(found, 9), at(found, 9, "u")] == [
            Bound(23),
            Bound(7),
            Bound(EARLIEST),
        ]

    def test_may_come_from_the_progress_of_a_stream(self) -> None:
        ended = Position({TopicPartition("t", 0): 23}, {"t": "id"}, {}, "cluster").to_json()
        newest = {"t": {"0": 25}, WAITING: {"t-0": {"last_stable_offset": 25}}}

        assert bounds("starting", startingOffsets=json.dumps(ended)).topics == {}
        assert at(bounds("starting", startingOffsets=json.dumps(ended)), 0) == Bound(23)
        assert at(bounds("ending", endingOffsets=json.dumps(newest)), 0) == Bound(25)

    def test_may_be_a_word_for_a_topic(self) -> None:
        found = bounds("ending", endingOffsets='{"t": "latest", "u": {"0": 5}}')

        assert [at(found, 7), at(found, 0, "u")] == [Bound(LATEST), Bound(5)]

    @pytest.mark.parametrize(
        ("side", "options"),
        [
            ("starting", {"startingOffsets": "latest"}),
            ("starting", {"startingOffsets": '{"t": {"0": -1}}'}),
            ("starting", {"startingOffsets": '{"t": "latest"}'}),
            ("ending", {"endingOffsets": "earliest"}),
            ("ending", {"endingOffsets": '{"t": {"0": -2}}'}),
        ],
    )
    def test_may_not_leave_nothing(self, side: str, options: dict[str, object]) -> None:
        with pytest.raises(InvalidOptionError, match="is not allowed in a batch read"):
            bounds(side, **options)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("now", "'now' is no JSON"),
            ("[" * 100_000, "is no JSON"),
            ("[1]", "is no JSON object"),
            ('{"t": 5}', "topic 't' has 5"),
            ('{"t": "now"}', "topic 't' has 'now'"),
            ('{"t": {"0": -3}}', "-3 is neither an offset"),
            ('{"t": {"0": "5"}}', "'5' is neither an offset"),
            ('{"t": {"*": "5"}}', "'5' is neither an offset"),
            ('{"t": {"0": true}}', "True is neither an offset"),
            ('{"t": {"0": 1.5}}', "1.5 is neither an offset"),
            ('{"t": {"-1": 5}}', "'-1' is no partition"),
            ('{"t": {"²": 5}}', "'²' is no partition"),
            ('{"t": {"0": 5}, "t": {"1": 7}}', "'t' is there twice"),
            ('{"t": {"0": 5, "0": 7}}', "'0' is there twice"),
            ('{"t": {"0": 5, "00": 7}}', "t-0 is there twice"),
        ],
    )
    def test_that_are_none_are_refused(self, text: str, message: str) -> None:
        with pytest.raises(InvalidOptionError, match=f"option startingOffsets: .*{message}"):
            bounds("starting", startingOffsets=text)


class TestTimes:
    def test_for_all_beat_everything(self) -> None:
        found = bounds(
            "starting",
            startingTimestamp=5,
            startingOffsetsByTimestamp='{"t": {"0": 7}}',
            startingOffsets='{"t": {"0": 23}}',
        )

        assert at(found, 0) == Bound(timestamp=5)

    def test_by_partition_beat_offsets(self) -> None:
        found = bounds(
            "ending", endingOffsetsByTimestamp='{"t": {"0": 7}}', endingOffsets='{"t": {"1": 2}}'
        )

        assert [at(found, 0), at(found, 1)] == [Bound(timestamp=7), Bound(LATEST)]

    @pytest.mark.parametrize(
        ("text", "message"),
        [('{"t": {"0": -1}}', "-1 is no time"), ('{"t": "latest"}', "takes times")],
    )
    def test_are_not_offsets(self, text: str, message: str) -> None:
        with pytest.raises(InvalidOptionError, match=message):
            bounds("starting", startingOffsetsByTimestamp=text)


class TestAssign:
    def test_names_partitions(self) -> None:
        assert parse_assign('{"u": [0], "t": [1, 0, 1]}') == [
            TopicPartition("t", 0),
            TopicPartition("t", 1),
            TopicPartition("u", 0),
        ]

    @pytest.mark.parametrize(
        "text",
        [
            *("t", "[0]", '{"t": 0}', '{"t": [-1]}', '{"t": [true]}', '{"t": [0.5]}'),
            '{"t": [0], "t": [1]}',
        ],
    )
    def test_is_refused_with_an_example(self, text: str) -> None:
        with pytest.raises(InvalidOptionError, match=r'expected e.g. {"flights": \[0, 1\]}'):
            parse_assign(text)
