"""What the checkpoint of a stream says: a text that is stable, and enough to start from."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import UsageError
from sparklog.model import TopicPartition
from sparklog.spark.reading.position import Position

A0, A10, B2 = TopicPartition("a", 0), TopicPartition("a", 10), TopicPartition("b", 2)

offsets = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "B", "0", "_x", "a.b"]), st.integers(0, 20)),
    st.integers(0, 2**63 - 1),
)


class TestText:
    def test_of_a_beginning_is_the_connectors(self) -> None:
        position = Position({B2: 7, A10: 1, A0: 5})

        assert json.dumps(position.to_json()) == '{"a": {"0": 5, "10": 1}, "b": {"2": 7}}'

    def test_of_an_end_has_ids_and_once_where_the_stream_began(self) -> None:
        assert Position({A0: 5}, {"a": "ID"}, {A0: 2}).to_json() == {
            "a": {"0": 5},
            "@sparklog": {"ids": {"a": "ID"}, "start": {"a": {"0": 2}}},
        }

    def test_of_nothing_at_all_is_still_no_beginning(self) -> None:
        nothing = Position({}, {}, {})

        assert not Position.of_json(nothing.to_json()).is_initial
        assert Position.of_json({}).is_initial

    @given(offsets, st.booleans(), offsets)
    def test_comes_back_the_same(
        self, where: dict[TopicPartition, int], initial: bool, began: dict[TopicPartition, int]
    ) -> None:
        ids = None if initial else {key.topic: f"id of {key.topic}" for key in where}
        cluster = "abc" if began else None
        position = Position(where, ids, *(() if initial else (began, cluster)))
        text = json.dumps(position.to_json())
        shuffled = replace(position, offsets=dict(reversed(where.items())))

        assert Position.of_json(json.loads(text)) == position
        assert json.dumps(shuffled.to_json()) == text

    @pytest.mark.parametrize(
        "text",
        [
            {"a": 5},
            {"a": {"x": 5}},
            {"a": {"0": None}},
            {"a": {"0": 5}, "@sparklog": {}},
            {"a": {"0": 5}, "@sparklog": {"ids": {}}},
            {"logOffset": 3},
            [],
        ],
    )
    def test_of_others_is_refused(self, text: Any) -> None:
        with pytest.raises(
            UsageError, match="in the checkpoint is no position of a sparklog stream"
        ):
            Position.of_json(text)


class TestBatch:
    def test_begins_where_the_one_before_ended(self) -> None:
        end = Position({A0: 9, B2: 8}, {"a": "1", "b": "2"})

        assert Position({A0: 5, B2: 7}, {"a": "1", "b": "2"}).begins(end) == {A0: 5, B2: 7}

    def test_that_is_the_first_begins_where_its_end_says(self) -> None:
        """Spark asks anew for the initial offset when it runs the first batch again."""
        end = Position({A0: 9, B2: 8}, {"a": "1", "b": "2"}, {A0: 3})

        assert Position({A0: 8, B2: 8}).begins(end) == {A0: 3, B2: 0}

    def test_begins_at_0_in_a_new_partition(self) -> None:
        end = Position({A0: 9, A10: 4}, {"a": "1"})

        assert Position({A0: 5}, {"a": "1"}).begins(end) == {A0: 5, A10: 0}

    def test_begins_at_0_in_a_topic_created_again(self) -> None:
        assert Position({A0: 5}, {"a": "1"}).begins(Position({A0: 2}, {"a": "new"})) == {A0: 0}
