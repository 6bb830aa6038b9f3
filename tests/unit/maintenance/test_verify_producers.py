"""Aborted spans, open transactions and producers, compared with the batches of the log."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.admin import AdminClient, NewTopic
from sparklog.log_reader.isolation import AbortedSpan, is_aborted
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Job
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.verification.verified_log import LogStates
from sparklog.maintenance.verification.verified_producers import (
    NOWHERE,
    TOLD_MAX,
    AbortedSpans,
    LastBatch,
    OpenPart,
    ProducersSeen,
    Trace,
    Traces,
)
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.producers import ProducerBatch, ProducerState
from sparklog.model import AbortedRange, SegmentEntry
from sparklog.record.batches import byte_view
from sparklog.record.markers import ABORT
from sparklog.record.scan import scan_batches
from tests.broker_files import emptied_marker
from tests.client_batches import NOW_MS, client_batch
from tests.edits import edited
from tests.maintenance import run
from tests.transactions import TRANSACTIONAL, Client, Instance, new_log_dir, ready
from tests.verifying import abort, record

pytestmark = pytest.mark.slow

ENDS = "whose transaction was"


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return new_log_dir(str(tmp_path / "log"), "t", partitions=1)


def told(instance: Instance) -> list[str]:
    """The problems that verify finds in the topic t."""
    _, reports = run(verify, instance.catalog.files.uri, repair=False, records=True)
    return [
        line for one in reports if one.topic == "t" and one.outcome for line in one.outcome.problems
    ]


def change(instance: Instance, **edit: Any) -> None:
    """Let the metadata say something else of the topic."""
    edited(instance.catalog, instance.catalog.topic("t"), **edit)


def with_spans(entry: SegmentEntry, *spans: tuple[int, int, int]) -> SegmentEntry:
    """A row with other aborted transactions: producer, first and last offset."""
    base = entry.base_offset
    aborted = [AbortedRange(one[0], one[1] - base, one[2] - base) for one in spans]
    return entry._replace(aborted=tuple(aborted))


def sent(instance: Instance, *ends: Any) -> Client:
    """A transaction of two records, 0 and 1, in segments of their own, and its marker, 2."""
    client = ready(instance)
    client.produce("a")
    client.produce("b")
    for end in ends:
        getattr(client, end)()
    return client


class TestSpans:
    @pytest.mark.parametrize("is_merged", [False, True])
    def test_that_are_lost(self, instance: Instance, is_merged: bool) -> None:
        sent(instance, "abort")
        if is_merged:
            run(merge_segments, instance.catalog.files.uri, seal=True)
        assert told(instance) == []
        rows = instance.log().entries()
        change(instance, replace=[with_spans(one) for one in rows])

        found = told(instance)
        assert [f": offset {n}: a record of producer" in one for n, one in enumerate(found)] == (
            [True] * (1 if is_merged else 2)
        )
        assert all(f"{ENDS} aborted at 2; its row does not say so" in one for one in found)
        for row, line in zip(rows, found, strict=False):
            assert line.startswith("t-0: ")
            assert row.log_path in line

    def test_that_hide_what_was_committed(self, instance: Instance) -> None:
        client = sent(instance, "commit")
        rows = instance.log().entries()
        span = (client.producer.producer_id, 1, 2)
        change(instance, replace=[with_spans(rows[1], span), with_spans(rows[2], span)])

        hidden, none = sorted(told(instance), key=lambda line: "there is no such" in line)
        assert f"offset 1: a record of producer {span[0]}, {ENDS} committed at 2" in hidden
        assert f"producer {span[0]} was aborted at offset 2; there is no such marker" in none

    def test_many_are_told_in_short(self, instance: Instance) -> None:
        sent(instance, "commit")
        spans = [(producer, 0, 2) for producer in range(TOLD_MAX + 3)]
        change(instance, replace=[with_spans(instance.log().entries()[2], *spans)])

        assert len(told(instance)) == TOLD_MAX + 1
        assert told(instance)[-1].endswith(": 3 more problems of its transactions")

    def test_below_the_log_start_are_nobodys(self, instance: Instance) -> None:
        sent(instance, "abort")
        change(instance, replace=[with_spans(one) for one in instance.log().entries()])
        AdminClient(instance.catalog.files.uri).delete_records({("t", 0): 2})

        assert told(instance) == []


class TestOpenTransactions:
    @pytest.mark.parametrize(
        ("first", "said"), [(None, "say that it has none"), (1, "say that it begins at 1")]
    )
    def test_that_are_lost(self, instance: Instance, first: int | None, said: str) -> None:
        producer = sent(instance).producer.producer_id
        left = () if first is None else (OpenTransaction(producer, first),)
        change(instance, transactions={0: left})

        (line,) = told(instance)
        assert line.startswith(f"t-0: producer {producer} has an open transaction with a record at")
        assert f"offset 0, and the metadata {said}; transactional id 'id'" in line


class TestProducers:
    @pytest.mark.parametrize(
        "batch",
        [
            ProducerBatch(500, 600, 23, 1),  # behind the log end
            ProducerBatch(0, 0, 0, 1),  # one batch is missing
            ProducerBatch(7, 7, 1, 1),  # another sequence
        ],
    )
    def test_whose_last_batch_is_another(self, instance: Instance, batch: ProducerBatch) -> None:
        id_, epoch = sent(instance).producer
        change(instance, producers={0: (ProducerState(id_, epoch, (batch,)),)})

        (line,) = told(instance)
        assert line.startswith(f"t-0: the metadata say that the last batch of producer {id_} ends")
        assert line.endswith(f"its last one ends at offset 1, with sequence 1 of epoch {epoch}")

    def test_without_a_batch_in_the_log(self, instance: Instance) -> None:
        sent(instance)
        change(instance, producers={0: (ProducerState(7, 0, (ProducerBatch(0, 0, 1, 1),)),)})

        (line,) = told(instance)
        assert line.endswith("; in the log it has none there")

    def test_that_were_forgotten_are_no_problem(self, instance: Instance) -> None:
        sent(instance, "commit")
        change(instance, forget_producers_before_ms=NOW_MS * 2)
        client = ready(instance)
        client.produce("c")
        client.commit()

        assert told(instance) == []


def seen(end: int, *windows: Sequence[bytes], opened: Sequence[OpenTransaction] = ()) -> Traces:
    """The traces of a segment that begins at 0."""
    found = ProducersSeen(SegmentEntry(0, 0, end, 0, "x", 1, 0), opened)
    for batches in windows:
        data = b"".join(batches)
        found.add(scan_batches(data).batches, byte_view(data))
    return found.finish()


class TestGaps:
    """A marker may have been in a gap."""

    def test_before_a_marker(self) -> None:
        traces = seen(3, [record(0), abort(2)], opened=[OpenTransaction(7, 0)])

        assert traces.problems == []
        assert (traces.has_gap, traces.dense_from) == (True, 2)
        assert traces.by_producer[7] == Trace(None, (ABORT, 2), batch=LastBatch(0, -1, 0, True))

    def test_before_another_producer(self) -> None:
        assert (
            seen(4, [record(0), record(2, producer=NOWHERE, attributes=0)], [abort(3)]).problems
            == []
        )

    def test_at_the_end(self) -> None:
        traces = seen(5, [record(0)])

        assert (traces.dense_from, traces.by_producer[7].part) == (5, None)

    def test_what_is_behind_them_is_known(self) -> None:
        (problem,) = seen(5, [record(0), record(2), record(3), abort(4)]).problems

        assert problem.startswith("offset 2: ")

    def test_a_marker_that_a_cleaner_has_emptied_ends_what_nobody_knows(self) -> None:
        traces = seen(2, [record(0), emptied_marker(1, 7)], opened=[OpenTransaction(7, 0)])
        assert (traces.by_producer[7].end, traces.by_producer[7].marker) == ((NOWHERE, 1), None)
        assert seen(3, [record(0), emptied_marker(1, 7), abort(2)]).problems == []

    def test_the_header_of_a_record_that_compaction_dropped(self) -> None:
        assert seen(2, [record(0, count=0), abort(1)]).problems == []

    def test_between_segments(self, instance: Instance) -> None:
        client = ready(instance)
        for end in (client.commit, client.abort):
            client.produce("a")
            end()
        change(instance, remove=[instance.log().entries()[1].key])  # the COMMIT at 1

        assert told(instance) == []

    def test_within_a_segment_between_others(self, instance: Instance) -> None:
        states = LogStates(instance.catalog.topic_image(instance.catalog.topic("t")))
        first, gap, last = (SegmentEntry(0, at, at + 2, at, "x", 1, 0) for at in (0, 2, 4))

        assert states.add(first, Traces(0, by_producer={7: Trace(part=OpenPart(1))})) == []
        assert states.add(gap, Traces(3, has_gap=True)) == []
        assert states.add(last, Traces(4, by_producer={7: Trace(end=(ABORT, 5))})) == []


offsets = st.integers(0, 9)
ranges = st.tuples(st.integers(7, 8), offsets, offsets)


@given(
    st.lists(ranges, max_size=5), st.lists(st.sampled_from([6, 7, 8, 9]), min_size=1, max_size=9)
)
def test_what_spans_hide_is_what_readers_leave_out(
    spans: list[tuple[int, int, int]], producers: list[int]
) -> None:
    chosen = sorted(AbortedSpan(one, min(pair), max(pair)) for one, *pair in spans)
    data = b"".join(
        client_batch("x", producer_id=one, base_offset=at, attributes=TRANSACTIONAL)
        for at, one in enumerate(producers)
    )
    found = AbortedSpans(chosen).hide(np.array(producers), np.arange(len(producers)))
    assert found.tolist() == is_aborted(scan_batches(data).batches, 0, chosen).tolist()


JOBS: dict[str, tuple[Job, dict[str, Any]]] = {
    "merge": (merge_segments, {"seal": False}),
    "seal": (merge_segments, {"seal": True}),
    "compact": (compact, {"force": True, "reindex": False}),
}
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), st.sampled_from("abc")),
        st.tuples(st.just("send"), st.integers(0, 2), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["commit", "abort"]), st.integers(0, 2)),
        st.tuples(st.just("plain"), st.sampled_from("abc")),
        st.tuples(st.sampled_from([*JOBS, "delete", "forget"])),
    ),
    min_size=4,
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_a_sound_log_has_no_problems(steps: list[Any]) -> None:
    """Goal: no false alarm. Method: transactions between jobs, all at random."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"cleanup.policy": "compact,delete", "sparklog.shared.segment.max.bytes": "0"}
        AdminClient(f"{folder}/log").create_topics([NewTopic("t", 1, config)])
        instance = Instance(f"{folder}/log")
        clients = [
            Client(instance, name, version=v) for name, v in zip("xyz", (9, 13, 9), strict=True)
        ]
        for client in clients:
            client.init()
        for name, *given in steps:
            step(instance, clients, name, *given)
        assert told(instance) == []


def step(instance: Instance, clients: list[Client], name: str, *given: Any) -> None:
    """Take one step; what a producer may not do is refused."""
    if name in JOBS:
        job, options = JOBS[name]
        run(job, instance.catalog.files.uri, **options)
    elif name == "plain":
        Client(instance).produce("p", attributes=0, key=given[0].encode())
    elif name == "send":
        client = clients[given[0]]
        client.add(0)
        assert isinstance(client.produce("v", key=given[1].encode()), int)
    elif name == "delete":
        log = instance.log()
        AdminClient(instance.catalog.files.uri).delete_records(
            {("t", 0): (log.log_start_offset + log.last_stable_offset) // 2}
        )
    elif name == "forget":
        instance.catalog.clock.sleep_ms(1)
        change(instance, forget_producers_before_ms=NOW_MS * 2)
        for client in clients:
            client._sequences.clear()
    elif instance.state(clients[given[0]].name).is_open:
        getattr(clients[given[0]], name)()
