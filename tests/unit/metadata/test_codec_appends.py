"""Edits that only append, encoded without being read back: a reader decodes the same edit."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.metadata import codec_segments
from sparklog.metadata.codec import edit_json, edit_of
from sparklog.metadata.codec_appends import appends_json
from sparklog.metadata.edit import Edit, Lease, PartitionState, TopicEdit
from sparklog.metadata.producers import ProducerBatch, ProducerState
from sparklog.model import AbortedRange, SegmentEntry
from tests.edits import segment


def _entry(fields: dict[str, Any]) -> SegmentEntry:
    return SegmentEntry(**fields)


INT64S = st.integers(-(2**63), 2**63 - 1)
ABSENT = st.none()
PATHS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SEGMENTS = st.fixed_dictionaries(
    {
        "partition": INT64S,
        "base_offset": INT64S,
        "next_offset": INT64S,
        "file_base_offset": INT64S,
        "log_path": st.sampled_from(["__shared/a.log", "b.log"]) | PATHS,
        "log_bytes": INT64S,
        "created_ms": INT64S,
        "log_position": st.just(0) | INT64S,
        "log_crc32c": ABSENT | INT64S,
        "record_count": ABSENT | INT64S,
        "batch_count": ABSENT | INT64S,
        "min_timestamp": ABSENT | INT64S,
        "max_timestamp": st.just(-1) | INT64S,
        "max_timestamp_delta": st.just(0) | INT64S,
        "codec": ABSENT | INT64S,
        "max_leader_epoch": ABSENT | INT64S,
        "producer_ids": ABSENT | st.lists(INT64S, max_size=3).map(tuple),
        "transactional": st.booleans(),
        "delete_horizon_ms": ABSENT | INT64S,
        "removed_ms": ABSENT | INT64S,
    }
).map(_entry)
BATCHES = st.tuples(INT64S, INT64S, INT64S, INT64S).map(ProducerBatch._make)
STATES = st.tuples(INT64S, INT64S, st.lists(BATCHES, max_size=5).map(tuple)).map(
    lambda fields: ProducerState(*fields)
)
TOPICS = st.builds(
    TopicEdit,
    segments=st.lists(SEGMENTS, max_size=3, unique_by=lambda one: one.key).map(tuple),
    leader_epochs=st.dictionaries(INT64S, INT64S, max_size=3),
    producers=st.dictionaries(INT64S, st.lists(STATES, max_size=2).map(tuple), max_size=3),
)
EDITS = st.builds(
    Edit,
    operation=st.just("PRODUCE"),
    topics=st.dictionaries(PATHS, TOPICS, min_size=1, max_size=3),
)

APPENDED = segment()
STATE = ProducerState(7, 0, (ProducerBatch(0, 0, 0, 5),))


def of_topic(**fields: Any) -> Edit:
    return Edit(operation="PRODUCE", topics={"id": TopicEdit(**fields)})


def with_segment(**fields: Any) -> Edit:
    return of_topic(segments=(APPENDED._replace(**fields),))


class TestAppends:
    @given(EDITS)
    def test_are_written_as_any_edit_and_read_as_they_were(self, edit: Edit) -> None:
        """Goal: An edit that is not read back is what each reader decodes.

        Method: Made-up edits; the bytes are those of the codec, and are decoded to an equal edit.
        """
        written = appends_json(edit)
        assert written is not None
        data = orjson.dumps(written)

        with patch.object(codec_segments, "plain_segment_json", return_value=None):
            assert data == orjson.dumps(edit_json(edit))
        assert edit_of(orjson.loads(data), edit.parameters) == edit

    def test_the_time_of_a_producers_last_use_is_the_entrys(self) -> None:
        edit = of_topic(producers={0: (STATE._replace(used_ms=9),)})

        assert edit_of(appends_json(edit), {}) == of_topic(producers={0: (STATE,)})


class TestOthers:
    @pytest.mark.parametrize(
        "edit",
        [
            Edit(operation="X", leases={"a": Lease("a", "b", 5)}),
            replace(with_segment(), leases={"a": None}),
            replace(with_segment(), next_producer_id=0),
            of_topic(segments=(APPENDED,), remove=(APPENDED._replace(partition=2).key,)),
            of_topic(segments=(APPENDED,), partitions={0: PartitionState()}),
            of_topic(segments=(APPENDED,), allow_gaps=True),
            of_topic(segments=[APPENDED]),
            with_segment(index_path="a.index"),
            with_segment(aborted=(AbortedRange(1, 0, 1),)),
        ],
    )
    def test_go_through_the_codec(self, edit: Edit) -> None:
        assert appends_json(edit) is None

    @pytest.mark.parametrize(
        "edit",
        [
            Edit(operation="", topics=with_segment().topics),
            Edit(operation=7, topics=with_segment().topics),  # type: ignore[arg-type] # a wrong type is the point
            with_segment(base_offset=2**63),
            with_segment(base_offset=1.0),
            with_segment(base_offset=True),
            with_segment(log_bytes=None),
            with_segment(log_position=None),
            with_segment(log_path=b"a.log"),
            with_segment(transactional=0),
            with_segment(producer_ids=[7]),
            with_segment(producer_ids=(7.0,)),
            with_segment(producer_ids=(2**63,)),
            of_topic(leader_epochs={0: None}),
            of_topic(leader_epochs={"0": 0}),
            of_topic(leader_epochs={0: 2**63}),
            of_topic(producers={None: (STATE,)}),
            of_topic(producers={0: [STATE]}),
            of_topic(producers={0: (ProducerState(*STATE[:1], 0.5),)}),  # type: ignore[arg-type] # a wrong type is the point
            of_topic(producers={0: (STATE._replace(producer_id=2**64 - 1),)}),
        ],
    )
    def test_values_that_no_reader_would_take_do_so_too(self, edit: Edit) -> None:
        assert appends_json(edit) is None
