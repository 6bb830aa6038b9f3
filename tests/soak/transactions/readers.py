"""Copiers, which read, write and commit their offsets in one transaction; and readers."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.soak.setup import Life
from tests.soak.transactions.history import COMMITTED, UNCOMMITTED, Outcome, Polled, Reads
from tests.soak.transactions.producers import CLIENT, Transactor
from tests.soak.transactions.setup import (
    KEYS,
    LEFT,
    PARTITIONS,
    RECEIPTS,
    RIGHT,
    bootstrap,
    place_of,
)

GROUP = "copiers"
COPIED = 0.3
"""The share of records that are copied: less than half, or the topics would grow for ever."""
POLL_S = 0.2


def reads_of(messages: Sequence[Message]) -> Reads:
    """What a poll has brought, by key."""
    found: dict[str, list[tuple[int, str]]] = {}
    for message in messages:
        offset, value = message.offset(), message.value()
        if message.error() is None and offset is not None and value is not None:
            key = f"{message.topic()}:{message.partition()}"
            found.setdefault(key, []).append((offset, bytes(value).decode()))
    return tuple((key, tuple(pairs)) for key, pairs in found.items())


def ends_of(messages: Sequence[Message]) -> tuple[str, ...]:
    """The keys that a poll has read to their end, and not on from there."""
    at_end: dict[str, bool] = {}
    for message in messages:
        error = message.error()
        is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        if error is None or is_end:
            at_end[f"{message.topic()}:{message.partition()}"] = is_end
    return tuple(key for key, is_end in at_end.items() if is_end)


def follow_committed(life: Life) -> None:
    """Read all partitions from their beginning, as read_committed."""
    _follow(life, COMMITTED)


def follow_uncommitted(life: Life) -> None:
    """Read all partitions from their beginning, as read_uncommitted."""
    _follow(life, UNCOMMITTED)


def _follow(life: Life, isolation: str) -> None:
    journal, name = life.journal(), f"{life.name}.{life.birth}"
    options = {
        **CLIENT,
        "bootstrap.servers": bootstrap(life.folder),
        "group.id": life.name,
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer(options)
    consumer.assign([TopicPartition(*place_of(key), 0) for key in KEYS])
    while time.monotonic() < life.deadline:
        began = time.monotonic_ns()
        messages = consumer.consume(200, POLL_S)
        reads, ends = reads_of(messages), ends_of(messages)
        if reads or ends:
            ended = time.monotonic_ns()
            journal.note(Polled(name, isolation, reads, began, ended, ends=ends))


def copy(life: Life) -> None:
    """Copy some records of each topic to the other one, until the deadline."""
    copier = Copier(life)
    while time.monotonic() < life.deadline:
        try:
            copier.copy_some()
        except KafkaException:
            copier.subscribe_anew()


class Copier:
    """A member of the group of copiers."""

    def __init__(self, life: Life) -> None:
        self._transactor = Transactor(life)
        self._has_moved = False
        self._consumer = self._subscribed()

    def _subscribed(self) -> Consumer:
        options = {
            **CLIENT,
            "bootstrap.servers": bootstrap(self._transactor.life.folder),
            "group.id": GROUP,
            "isolation.level": COMMITTED,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
        }
        consumer = Consumer(options)
        consumer.subscribe([LEFT, RIGHT], on_assign=self._moved, on_revoke=self._moved)
        return consumer

    def _moved(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._has_moved = True

    def subscribe_anew(self) -> None:
        """Be another member: what was read and not committed is read again."""
        self._consumer.close()
        self._consumer = self._subscribed()

    def copy_some(self) -> None:
        """Run one transaction. Raises KafkaException when its records cannot be read again."""
        draw, txn = self._transactor.draw, self._transactor.new_txn()
        self._has_moved = False
        messages: list[Message] = []
        for _ in range(draw.randint(1, 3)):
            messages += self._poll(txn)
        if self._has_moved or not messages:
            # What was polled before a partition went and came belongs to another position.
            self._rewind()
            return
        keys = [
            f"{RIGHT if message.topic() == LEFT else LEFT}:{draw.randrange(PARTITIONS)}"
            for message in messages
            if draw.random() < COPIED
        ]
        keys.append(f"{RECEIPTS}:{draw.randrange(PARTITIONS)}")
        sends = [(key, f"{txn}/{rank}") for rank, key in enumerate(keys)]
        group = offsets_of(messages), self._consumer.consumer_group_metadata()
        if self._transactor.transact(txn, sends, group) is not Outcome.COMMITTED:
            self._rewind()

    def _poll(self, txn: str) -> list[Message]:
        draw, began = self._transactor.draw, time.monotonic_ns()
        found = [
            one for one in self._consumer.consume(draw.randint(1, 30), POLL_S) if not one.error()
        ]
        reads, ended = reads_of(found), time.monotonic_ns()
        event = Polled(GROUP, COMMITTED, reads, began, ended, txn, is_moved=self._has_moved)
        self._transactor.journal.note(event)
        return found

    def _rewind(self) -> None:
        """Go back to the group's offsets."""
        for one in self._consumer.committed(self._consumer.assignment(), 10):
            if one.error is not None:
                raise KafkaException(one.error)
            self._consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))


def offsets_of(messages: Sequence[Message]) -> list[TopicPartition]:
    """The offsets behind what was read."""
    newest = {(str(one.topic()), one.partition() or 0): (one.offset() or 0) + 1 for one in messages}
    return [TopicPartition(*place, offset) for place, offset in newest.items()]
