"""Transactional producers: they write, transfer money, or copy, until they are killed.

Every error that a client may meet is met here as a program would: what can be aborted is aborted,
and behind anything else the producer is made anew, which ends what it left.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.soak.setup import Life
from tests.soak.transactions.history import Asked, Began, Ended, Outcome
from tests.soak.transactions.setup import (
    ACCOUNTS,
    LEFT,
    LULL_EVERY_S,
    LULL_S,
    PARTITIONS,
    RIGHT,
    TIMEOUT_MS,
    bootstrap,
    place_of,
)

CLIENT: Final[dict[str, Any]] = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "socket.timeout.ms": 5_000,
    "connections.max.idle.ms": 10_000,  # docs/transactions.md: a call that does not return
}
ABORTS: Final = 0.25
"""The share of transactions that their producer aborts."""
SUICIDES: Final = 0.02
"""How often a producer kills itself before it asks for the end."""
END_TIMEOUT_S: Final = 30.0
MONEY_MAX: Final = 1_000

Sends = Sequence[tuple[str, str]]
Group = tuple[list[TopicPartition], object]
"""Offsets to be committed, and the group's metadata."""


class Transactor:
    """The transactions of one life of a producer."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.draw = life.draws()
        self.journal = life.journal()
        self._numbers = count()
        self._producer: Producer | None = None
        self._sent: list[tuple[str, int, str]] = []
        self._is_in_doubt = True
        """True until a flush shows that every batch has an answer."""

    def new_txn(self) -> str:
        """The name of the next transaction."""
        return f"{self.life.name}.{self.life.birth}.{next(self._numbers)}"

    def transact(self, txn: str, sends: Sends, group: Group | None = None) -> Outcome:
        """Write, commit offsets, and end, or not; return what the producer was told."""
        self.journal.note(Began(txn, tuple(sends), time.monotonic_ns()))
        self._sent, self._is_in_doubt = [], True
        outcome = Outcome.UNKNOWN
        is_new = self._producer is None
        producer = self._producer = self._producer or self._made()
        try:
            if is_new:
                again(producer.init_transactions)
            outcome = self._ended(producer, txn, sends, group)
        except KafkaException:
            self._producer = None
        except SystemError as error:
            # An error that confluent-kafka finds during a delivery callback is the cause of one.
            if not isinstance(error.__cause__, KafkaException):
                raise
            self._producer = None
        if self._is_in_doubt and outcome == Outcome.ABORTED:
            # If librdkafka 2.16 has sent a batch, got no answer, and aborts, it gives the sequence
            # again (rd_kafka_toppar_purge_queues): the next batch is taken for a repeated one.
            self._producer = None
        self.journal.note(Ended(txn, outcome, tuple(self._sent), time.monotonic_ns()))
        return outcome

    def _ended(self, producer: Producer, txn: str, sends: Sends, group: Group | None) -> Outcome:
        producer.begin_transaction()
        try:
            self._write(producer, sends)
            if group is not None:
                again(producer.send_offsets_to_transaction, *group)
            if self.draw.random() < SUICIDES:
                os.kill(os.getpid(), signal.SIGKILL)
            is_commit = self.draw.random() >= ABORTS
            self.journal.note(Asked(txn, is_commit, time.monotonic_ns()))
            again(producer.commit_transaction if is_commit else producer.abort_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            again(producer.abort_transaction)
            return Outcome.ABORTED
        return Outcome.COMMITTED if is_commit else Outcome.ABORTED

    def _write(self, producer: Producer, sends: Sends) -> None:
        for key, value in sends:
            topic, number = place_of(key)
            producer.produce(topic, value, partition=number, on_delivery=self._delivered)
            if self.draw.random() < 0.2:
                producer.poll(self.draw.uniform(0, 0.02))  # so one transaction has several batches
        if self.draw.random() < 0.5:
            self._is_in_doubt = producer.flush(5) > 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and value is not None:
            key = f"{message.topic()}:{message.partition()}"
            self._sent.append((key, offset, bytes(value).decode()))

    def _made(self) -> Producer:
        options = {
            **CLIENT,
            "bootstrap.servers": bootstrap(self.life.folder),
            "transactional.id": self.life.name,
            "transaction.timeout.ms": TIMEOUT_MS,
            "message.timeout.ms": TIMEOUT_MS,
            "linger.ms": self.draw.choice((0, 5)),
        }
        return Producer(options)


def again(step: Callable[..., object], *arguments: object) -> None:
    """Take a step, again and again while its error says that this may help."""
    until = time.monotonic() + END_TIMEOUT_S
    while True:
        try:
            step(*arguments, 5.0)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise
        else:
            return


def write(life: Life) -> None:
    """Write to both topics until the deadline."""
    transactor = Transactor(life)
    draw = transactor.draw
    while time.monotonic() < life.deadline:
        txn = transactor.new_txn()
        keys = [f"{draw.choice((LEFT, RIGHT))}:{draw.randrange(PARTITIONS)}" for _ in range(6)]
        chosen = keys[: draw.randint(1, 6)]
        transactor.transact(txn, [(key, f"{txn}/{rank}") for rank, key in enumerate(chosen)])
        time.sleep(draw.uniform(0, 0.2))


def transfer(life: Life) -> None:
    """Move money between accounts until the deadline: the amounts of a transaction sum up to 0."""
    transactor = Transactor(life)
    draw = transactor.draw
    while time.monotonic() < life.deadline:
        if time.monotonic() % LULL_EVERY_S < LULL_S:
            time.sleep(LULL_S / 5)
            continue
        txn, money = transactor.new_txn(), draw.randint(1, MONEY_MAX)
        taker, giver = draw.sample(ACCOUNTS, 2)
        cut = draw.randint(0, money)
        amounts = [(giver, -money), (taker, cut), (taker, money - cut)]
        sends = [
            (f"{account}:{draw.randrange(PARTITIONS)}", f"{txn}/{rank}/{amount}")
            for rank, (account, amount) in enumerate(amounts)
        ]
        transactor.transact(txn, sends)
        time.sleep(draw.uniform(0, 0.1))
