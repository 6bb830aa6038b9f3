"""Transactions that `verify --repair` closes and enters, beside a naive view of the log."""

import tempfile
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.model import READ_UNCOMMITTED
from tests.maintenance import run
from tests.naive.transactions import Entry, NaiveLog
from tests.transactions import Client, Instance, new_log_dir
from tests.unit.maintenance.test_verify_ended import check, reopen

pytestmark = pytest.mark.slow


steps = st.lists(
    st.tuples(st.sampled_from(["send", "send", "commit", "abort", "plain"]), st.integers(0, 2)),
    min_size=3,
    max_size=16,
)


@settings(max_examples=25, deadline=None)
@given(steps, st.integers(0, 15), st.booleans(), st.booleans())
@example([("send", 0), ("plain", 0), ("commit", 0)], 1, True, False)
@example([("send", 0), ("commit", 1), ("abort", 0)], 0, False, False)
@example([("send", 0), ("send", 1), ("abort", 0), ("send", 2)], 1, False, True)
def test_repair_finds_what_a_naive_view_of_the_log_finds(
    steps: list[tuple[str, int]], at: int, is_merged: bool, loses: bool
) -> None:
    """Goal: a repair brings back what the log says.

    Method: Transactions at random; then the metadata say that those are open, too, that were open
    after one of the steps, or with `loses` only those. They lose the aborted spans behind the first
    one that they have wrongly.
    """
    with tempfile.TemporaryDirectory() as folder:
        instance, twin = new_log_dir(f"{folder}/log", "t", partitions=1), NaiveLog()
        clients = [Client(instance, name) for name in "xyz"]
        for client in clients:
            client.init()
        values, past = map(str, count()), [instance.log().transactions]
        for step, number in steps:
            take(instance, twin, clients[number], step, next(values))
            past.append(instance.log().transactions)
        if is_merged:
            run(merge_segments, instance.catalog.files.uri, seal=False)
        said = ({} if loses else twin.open) | dict(past[at % len(past)])
        wrong = said.items() ^ twin.open.items()
        if wrong:
            reopen(instance, *said.items(), since=min(first for _, first in wrong))
        check(instance, repair=True)

        assert dict(instance.log().transactions) == twin.open
        assert instance.values()[0] == twin.committed
        assert check(instance).problems == []


def take(instance: Instance, twin: NaiveLog, client: Client, step: str, value: str) -> None:
    """Take one step, and tell the twin."""
    producer = client.producer.producer_id
    if step == "plain":
        Client(instance).produce(value, attributes=0)
        twin.entries.append(Entry(-1, value, is_transactional=False))
    elif step == "send":
        client.produce(value)
        twin.entries.append(Entry(producer, value, is_transactional=True))
    elif producer in twin.open:
        getattr(client, step)()
        twin.entries.append(Entry(producer, None, True, is_commit=step == "commit"))
    assert len(instance.values(isolation=READ_UNCOMMITTED)[0]) == sum(
        one.value is not None for one in twin.entries
    )
