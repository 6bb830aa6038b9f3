"""Transactional ids: the state of a producer's transactions, as the image of a log dir has it.

    TransactionalId      one id: its producer, its epoch, and what its open transaction has touched
    TransactionalIds     all of them, by id and by producer

No coordinator remembers anything: each step of a transaction is a plan on an image, made by the
instance that the client asks (`transaction_plans`). States and their names are those of Kafka's
TransactionState; nothing is ever prepared, because a transaction ends in one entry.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from immutables import Map

NO_ID: Final = -1
"""A producer id, or an epoch, that there is not."""

EPOCH_MAX: Final = 2**15 - 1
"""The largest epoch. A client never gets it: it is left for the end that a log dir decides on."""


class TransactionStatus(StrEnum):
    """The state of the newest transaction of an id (Kafka's TransactionState)."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


class TransactionPartition(NamedTuple):
    """A partition of an open transaction."""

    topic_id: str
    partition: int


class PendingOffset(NamedTuple):
    """A group's offset of a partition, which is committed when its transaction commits."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_ID
    metadata: str = ""


class TransactionalId(NamedTuple):
    """A transactional id: its producer now, and its open or its last transaction.

    `last_producer_id` and `last_epoch` are those before the last change of the producer, so that a
    request which is sent again gets its answer again. `number` counts the transactions that were
    begun. Applying an edit sets `started_ms`, the time of the entry that began the transaction, and
    `used_ms`, that of the entry that changed the id last.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    last_producer_id: int = NO_ID
    last_epoch: int = NO_ID
    number: int = 0
    partitions: tuple[TransactionPartition, ...] = ()
    groups: tuple[str, ...] = ()
    offsets: tuple[PendingOffset, ...] = ()
    started_ms: int = 0
    used_ms: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self.status is TransactionStatus.ONGOING

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer id has no further epoch for a client (isEpochExhausted)."""
        return self.epoch >= EPOCH_MAX - 1

    def begun(self) -> "TransactionalId":
        """Return it with an open transaction: the one that is, or a new one."""
        if self.is_open:
            return self
        return self._replace(status=TransactionStatus.ONGOING, number=self.number + 1)

    def without_topics(self, topic_ids: Collection[str]) -> "TransactionalId | None":
        """Return it without the partitions of topics; None when it has none of them."""
        left = tuple(one for one in self.partitions if one.topic_id not in topic_ids)
        return None if left == self.partitions else self._replace(partitions=left)

    def at(self, known: "TransactionalId | None", now_ms: int) -> "TransactionalId":
        """Return it with the times that an entry of `now_ms` gives it; `known` is it before."""
        goes_on = known is not None and known.is_open and known.number == self.number
        started_ms = known.started_ms if known is not None and goes_on else now_ms
        return self._replace(started_ms=started_ms if self.is_open else 0, used_ms=now_ms)


class TransactionalIds:
    """The transactional ids of a log dir. Nothing in it ever changes."""

    __slots__ = ("_by_producer", "by_id", "open")

    def __init__(self, found: Iterable[TransactionalId] = ()) -> None:
        listed = list(found)
        self.by_id: Map[str, TransactionalId] = Map({one.transactional_id: one for one in listed})
        self.open: Map[str, TransactionalId] = Map(
            {one.transactional_id: one for one in listed if one.is_open}
        )
        """Those with an open transaction."""
        self._by_producer: Map[int, str] = Map(
            {one.producer_id: one.transactional_id for one in listed}
        )

    def get(self, transactional_id: str) -> TransactionalId | None:
        """Return an id's state; None for an id that was never used, or has expired."""
        return self.by_id.get(transactional_id)

    def of_producer(self, producer_id: int) -> TransactionalId | None:
        """Return the id that has a producer id now."""
        name = self._by_producer.get(producer_id)
        return None if name is None else self.by_id[name]

    def pending(self, group_id: str) -> frozenset[tuple[str, int]]:
        """Return the partitions, by topic, whose offsets of a group an open transaction holds."""
        return frozenset(
            (one.topic, one.partition)
            for opened in self.open.values()
            for one in opened.offsets
            if one.group_id == group_id
        )

    def after(
        self, changes: Mapping[str, TransactionalId | None], now_ms: int
    ) -> "TransactionalIds":
        """Return them after an entry's changes; None removes an id."""
        if not changes:
            return self
        found = TransactionalIds()
        ids, opened = self.by_id.mutate(), self.open.mutate()
        producers = self._by_producer.mutate()
        for name, change in changes.items():
            known = ids.pop(name, None)
            opened.pop(name, None)
            if known is not None:
                producers.pop(known.producer_id, None)
            if change is not None:
                ids[name] = new = change.at(known, now_ms)
                producers[new.producer_id] = name
                if new.is_open:
                    opened[name] = new
        found.by_id, found.open = ids.finish(), opened.finish()
        found._by_producer = producers.finish()
        return found


NO_TRANSACTIONAL_IDS: Final = TransactionalIds()
