"""Edits of appends and transactions, not read back: a reader decodes the same edit."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.metadata import batch
from sparklog.metadata.codec import segments
from sparklog.metadata.codec.appends import appends_json
from sparklog.metadata.codec.edits import edit_json, edit_of
from sparklog.metadata.codec.entry import encode_appends
from sparklog.metadata.state.edit import Edit, Lease, OpenTransaction, PartitionState, TopicEdit
from sparklog.metadata.state.producers import ProducerBatch, ProducerState
from sparklog.metadata.state.transactions import (
    Added,
    PendingOffset,
    TransactionalId,
    TransactionPartition,
    TransactionStatus,
)
from sparklog.model import AbortedRange, SegmentEntry
from tests.edits import segment
from tests.transactions import Client, new_log_dir


def _entry(fields: dict[str, Any]) -> SegmentEntry:
    return SegmentEntry(**fields)


INT64S = st.integers(-(2**63), 2**63 - 1)
ABSENT = st.none()
PATHS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SPANS = st.builds(AbortedRange, INT64S, INT64S, INT64S)
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
        "aborted": st.lists(SPANS, max_size=2).map(tuple),
        "delete_horizon_ms": ABSENT | INT64S,
        "removed_ms": ABSENT | INT64S,
    }
).map(_entry)
BATCHES = st.tuples(INT64S, INT64S, INT64S, INT64S).map(ProducerBatch._make)
STATES = st.tuples(INT64S, INT64S, st.lists(BATCHES, max_size=5).map(tuple)).map(
    lambda fields: ProducerState(*fields)
)
OPENED = st.lists(st.builds(OpenTransaction, INT64S, INT64S), max_size=2).map(tuple)


@st.composite
def _topics(draw: st.DrawFn) -> TopicEdit:
    """Return an edit of a topic: some of its segments are new, the others replace known ones."""
    entries = draw(st.lists(SEGMENTS, max_size=4, unique_by=lambda one: one.key))
    count = draw(st.integers(0, len(entries)))
    return TopicEdit(
        segments=tuple(entries[:count]),
        replace=tuple(entries[count:]),
        transactions=draw(st.dictionaries(INT64S, OPENED, max_size=3)),
        leader_epochs=draw(st.dictionaries(INT64S, INT64S, max_size=3)),
        producers=draw(
            st.dictionaries(INT64S, st.lists(STATES, max_size=2).map(tuple), max_size=3)
        ),
    )


PLACES = st.builds(TransactionPartition, PATHS, INT64S)
OFFSETS = st.tuples(PATHS, PATHS, INT64S, INT64S, INT64S, PATHS).map(PendingOffset._make)
TOUCHED = (
    st.lists(PLACES, max_size=3).map(tuple),
    st.lists(PATHS, max_size=2).map(tuple),
    st.lists(OFFSETS, max_size=2).map(tuple),
)
IDS = st.tuples(
    *(PATHS, INT64S, INT64S, INT64S, st.sampled_from(TransactionStatus), INT64S, INT64S, INT64S),
    *TOUCHED,
).map(lambda fields: TransactionalId(*fields))
EDITS = st.builds(
    Edit,
    operation=st.just("PRODUCE"),
    topics=st.dictionaries(PATHS, _topics(), max_size=3),
    next_producer_id=ABSENT | INT64S,
    transactional_ids=st.lists(IDS, max_size=2).map(
        lambda ids: {one.transactional_id: one for one in ids}
    ),
    added_to_transactions=st.dictionaries(PATHS, st.builds(Added, *TOUCHED), max_size=2),
)

APPENDED = segment()
SPAN = AbortedRange(1, 0, 1)
OPEN = OpenTransaction(7, 0)
BATCH = ProducerBatch(0, 0, 0, 5)
STATE = ProducerState(7, 0, (BATCH,))
OFFSET = PendingOffset("group", "t", 0, 5)
ID = TransactionalId(
    "id", 7, 0, 1000, partitions=(TransactionPartition("id", 0),), groups=("g",), offsets=(OFFSET,)
)


def of_topic(**fields: Any) -> Edit:
    return Edit(operation="PRODUCE", topics={"id": TopicEdit(**fields)})


def with_segment(**fields: Any) -> Edit:
    return of_topic(segments=(APPENDED._replace(**fields),))


def with_id(**fields: Any) -> Edit:
    return Edit(operation="X", transactional_ids={"id": ID._replace(**fields)})


def with_added(**fields: Any) -> Edit:
    return Edit(operation="X", added_to_transactions={"id": Added(**fields)})


class TestPlain:
    @given(EDITS)
    def test_are_written_as_any_edit_and_read_as_they_were(self, edit: Edit) -> None:
        """Goal: An edit that is not read back is what each reader decodes.

        Method: Made-up edits; the bytes are those of the codec, and are decoded to an equal edit.
        """
        written = appends_json(edit)
        assert written is not None
        data = orjson.dumps(written)

        with patch.object(segments, "plain_segment_json", return_value=None):
            assert data == orjson.dumps(edit_json(edit))
        assert edit_of(orjson.loads(data), edit.parameters) == edit

    def test_the_time_of_a_producers_last_use_is_the_entrys(self) -> None:
        edit = of_topic(producers={0: (STATE._replace(used_ms=9),)})

        assert edit_of(appends_json(edit), {}) == of_topic(producers={0: (STATE,)})

    def test_the_times_of_a_transactional_id_are_the_entrys(self) -> None:
        edit = with_id(started_ms=8, used_ms=9)

        assert edit_of(orjson.loads(encode_appends(edit) or b"")[0], {}) == with_id()

    def test_the_steps_of_a_transaction_are_read_as_they_were(self, tmp_path: Path) -> None:
        """Goal: no step takes the long way.  Method: look for edits that were read back."""
        instance = new_log_dir(str(tmp_path / "log"), "t")
        client = Client(instance)
        with patch.object(batch, "encode_edits", side_effect=AssertionError):
            client.init()
            client.produce("a")
            client.abort()
            client.produce("b")
            client.commit()

        assert instance.values()[0] == ["b"]


class TestOthers:
    @pytest.mark.parametrize(
        "edit",
        [
            Edit(operation="X", leases={"a": Lease("a", "b", 5)}),
            replace(with_segment(), leases={"a": None}),
            of_topic(segments=(APPENDED,), remove=(APPENDED._replace(partition=2).key,)),
            of_topic(segments=(APPENDED,), partitions={0: PartitionState()}),
            of_topic(segments=(APPENDED,), allow_gaps=True),
            of_topic(segments=[APPENDED]),
            with_segment(index_path="a.index"),
            Edit(operation="X", transactional_ids={"id": None}),
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
            with_segment(aborted=((1, 0, 1),)),
            with_segment(aborted=(SPAN._replace(last_delta=2**63),)),
            of_topic(replace=(APPENDED._replace(base_offset=1.0),)),  # type: ignore[arg-type] # a wrong type is the point
            of_topic(transactions={"0": (OPEN,)}),
            of_topic(transactions={0: [OPEN]}),
            of_topic(transactions={0: ((7, 0),)}),
            of_topic(transactions={0: (OPEN._replace(first_offset=2**63),)}),
            of_topic(leader_epochs={0: None}),
            of_topic(leader_epochs={"0": 0}),
            of_topic(leader_epochs={0: 2**63}),
            of_topic(producers={None: (STATE,)}),
            of_topic(producers={0: [STATE]}),
            of_topic(producers={0: (ProducerState(*STATE[:1], 0.5),)}),  # type: ignore[arg-type] # a wrong type is the point
            of_topic(producers={0: (STATE._replace(producer_id=2**64 - 1),)}),
            of_topic(producers={0: (tuple(STATE),)}),
            of_topic(producers={0: (STATE._replace(batches=[BATCH]),)}),  # type: ignore[arg-type] # a wrong type is the point
            of_topic(producers={0: (STATE._replace(batches=((0, 0, 0, 5),)),)}),  # type: ignore[arg-type] # a wrong type is the point
            replace(with_segment(), next_producer_id=True),
            replace(with_segment(), next_producer_id=2**63),
            Edit(operation="X", transactional_ids={"other": ID}),
            Edit(operation="X", transactional_ids=MappingProxyType({"id": ID})),
            Edit(operation="X", transactional_ids={"id": tuple(ID)}),  # type: ignore[dict-item] # a wrong type is the point
            with_id(epoch=0.5),
            with_id(epoch=2**63),
            with_id(status="Ongoing"),
            with_id(partitions=[TransactionPartition("id", 0)]),
            with_id(partitions=(("id", 0),)),
            with_id(partitions=(TransactionPartition("id", 2**63),)),
            with_id(groups=(b"g",)),
            with_id(offsets=(OFFSET._replace(metadata=None),)),  # type: ignore[arg-type] # a wrong type is the point
            with_added(groups=["g"]),
            with_added(partitions=(("id", 0),)),
            with_added(offsets=(OFFSET._replace(offset=2**63),)),
            Edit(operation="X", added_to_transactions=MappingProxyType({"id": Added()})),
            Edit(operation="X", added_to_transactions={7: Added()}),  # type: ignore[dict-item] # a wrong type is the point
            Edit(operation="X", added_to_transactions={"id": ((), (), ())}),  # type: ignore[dict-item] # a wrong type is the point
        ],
    )
    def test_values_that_no_reader_would_take_do_so_too(self, edit: Edit) -> None:
        assert appends_json(edit) is None
