"""Batches that are checked before their group begins: it says the same of them, and of the rest."""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparklog.admin import AdminClient, AlterConfigOp, NewTopic
from sparklog.errors import RecordTooLargeError, SparklogError, UnknownTopicError
from sparklog.group_commit.append_ahead import check_ahead
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.model import Codec
from tests.appends import Appender
from tests.client_batches import NOW_MS, client_batch
from tests.logs import FOREVER, rows, values

SOUND = client_batch("a", "b")
TOPICS = {
    "plain": FOREVER,
    "timed": {**FOREVER, "message.timestamp.type": "LogAppendTime"},
    "keyed": {**FOREVER, "cleanup.policy": "compact"},
    "packed": {**FOREVER, "compression.type": "gzip"},
    "small": {**FOREVER, "max.message.bytes": str(len(SOUND) - 1)},
    "punctual": {**FOREVER, "message.timestamp.before.max.ms": "1000"},
}
BATCHES = [
    SOUND,
    client_batch("c"),
    client_batch("d", keys=[b"k"]),
    client_batch("e", codec=Codec.ZSTD),
    client_batch("f", times=[NOW_MS - 2000]),
    client_batch("g", times=[-2]),
    client_batch("h", producer_id=7, producer_epoch=0, base_sequence=0),
    client_batch("i", producer_id=7, producer_epoch=0, base_sequence=5),
    client_batch("j", attributes=16, producer_id=7, producer_epoch=0, base_sequence=0),
    client_batch("k", attributes=5),
    client_batch("l", magic=1),
    client_batch("m", record_count=2),
    client_batch("n", base_offset=1),
    SOUND[:-1] + b"?",
    SOUND + b"?",
    SOUND[:-1],
    SOUND[:9],
    b"",
]


class Part(NamedTuple):
    """One part of a request."""

    topic: str
    partition: int
    batch: bytes


parts = st.builds(Part, st.sampled_from([*TOPICS]), st.integers(-1, 2), st.sampled_from(BATCHES))


@pytest.fixture
def world(log_dir: str) -> Appender:
    """The topic timed, beside t."""
    AdminClient(log_dir).create_topics([NewTopic("timed", 1, TOPICS["timed"])])
    return Appender(log_dir)


def made(log_dir: str) -> str:
    """A log dir with all topics of two partitions."""
    AdminClient(log_dir).create_topics([NewTopic(name, 2, one) for name, one in TOPICS.items()])
    return log_dir


def slots_of(world: Appender, sent: Sequence[Part], version: int) -> list[Slot]:
    return [
        Slot(Append(world.topic_id(name), partition, batch), version)
        for name, partition, batch in sent
    ]


def checked(world: Appender, *sent: Part, version: int = 13) -> list[Slot]:
    """Slots that are checked ahead; their group has not begun."""
    slots = slots_of(world, sent, version)
    check_ahead(slots, world.catalog.log.image(), world.catalog.clock.now_ms())
    return slots


def outcomes(world: Appender, slots: Sequence[Slot]) -> list[Any]:
    """The outcomes of slots once all are written."""
    world.writer.write([one for one in slots if one.outcome is None])
    return [one.outcome for one in slots]


def told(outcomes: Sequence[Any], world: Appender) -> list[Any]:
    """The outcomes as clients see them, with names of topics for their ids."""
    names = {world.topic_id(name): name for name in TOPICS}
    return [
        (type(one), named(one.message, names), getattr(one, "records", ()))
        if isinstance(one, SparklogError)
        else one
        for one in outcomes
    ]


def named(message: str, names: Mapping[str, str]) -> str:
    """The message with names of topics for their ids."""
    return " ".join(names.get(word.rstrip(":"), word) for word in message.split())


@settings(max_examples=15)
@given(st.lists(parts, min_size=1, max_size=8), st.sampled_from([3, 13]))
@example([Part(topic, 0, batch) for topic in TOPICS for batch in BATCHES], 13)
@example([Part(topic, 0, batch) for topic in TOPICS for batch in BATCHES], 3)
def test_outcomes_are_those_of_the_group(sent: list[Part], version: int) -> None:
    """Goal: to check ahead changes no outcome, and no record.

    Method: two log dirs get the same parts, of all kinds; only one checks them ahead.
    """
    with tempfile.TemporaryDirectory() as folder:
        ahead, naive = (Appender(made(f"{folder}/{name}")) for name in ("ahead", "naive"))
        found = outcomes(ahead, checked(ahead, *sent, version=version))
        expected = outcomes(naive, slots_of(naive, sent, version))

        assert told(found, ahead) == told(expected, naive)
        assert [rows(ahead.log_dir, name) for name in TOPICS] == [
            rows(naive.log_dir, name) for name in TOPICS
        ]


def test_what_needs_no_log_is_refused_ahead(world: Appender) -> None:
    slots = checked(world, Part("t", 0, SOUND), Part("t", 9, SOUND), Part("t", 0, b""))

    assert [one.outcome is None for one in slots] == [True, False, False]


def test_the_group_does_not_check_a_sound_one_again(
    world: Appender, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = checked(world, Part("t", 0, SOUND))
    monkeypatch.setattr("sparklog.record.client_batch.check_client_batch", pytest.fail)

    assert outcomes(world, slots) == [Appended(0, -1, 0)]


def test_configs_that_are_changed_meanwhile_hold(world: Appender, log_dir: str) -> None:
    slots = checked(world, Part("t", 0, SOUND), Part("t", 0, client_batch("c")))
    smaller = AlterConfigOp("max.message.bytes", len(SOUND) - 1)
    AdminClient(log_dir).incremental_alter_configs({"t": [smaller]})

    assert [type(one.outcome) for one in slots] == [type(None)] * 2
    assert type(outcomes(world, slots)[0]) is RecordTooLargeError
    assert values(log_dir) == {0: ["c"]}


def test_the_time_of_the_append_is_that_of_the_group(world: Appender, log_dir: str) -> None:
    slots = checked(world, Part("timed", 0, SOUND))
    world.catalog.clock.sleep_ms(1000)

    assert outcomes(world, slots) == [Appended(0, NOW_MS + 1000, 0)]
    assert [row.timestamp for row in rows(log_dir, "timed")[0]] == [NOW_MS + 1000] * 2


def test_a_topic_that_is_deleted_meanwhile(world: Appender, log_dir: str) -> None:
    slots = checked(world, Part("t", 0, SOUND))
    AdminClient(log_dir).delete_topics(["t"])

    assert type(outcomes(world, slots)[0]) is UnknownTopicError
