"""Transactional ids: the state of producers' transactions, as the image of a log dir has it.

    TransactionalId      one id: producer, epoch, and the partitions, groups and offsets of its
                         open transaction
    Added                partitions, groups and offsets that join an open transaction
    TransactionalIds     all of them, by id and by producer

No coordinator keeps state of its own: each step of a transaction is a plan on an image, made by the
gateway that the client asks (`plans.transactions`). States and their names are those of Kafka's
TransactionState. There are no Prepare states, because a transaction ends in one entry.
"""

from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from immutables import Map, MapMutation

from sparklog.errors import CorruptMetadataError

T = TypeVar("T")
NO_ID: Final = -1
"""Means "no producer id", or "no epoch"."""

EPOCH_MAX: Final = 2**15 - 1
"""The largest epoch. Clients get only smaller ones: an abort by the log dir needs one more."""


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
    """A group's offset of a partition, to be committed when the transaction commits."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_ID
    metadata: str = ""


class Added(NamedTuple):
    """Additions to an open transaction. An offset replaces that of its group and partition.

    A transaction may grow a thousand times; so an edit need not have all that it holds.
    """

    partitions: tuple[TransactionPartition, ...] = ()
    groups: tuple[str, ...] = ()
    offsets: tuple[PendingOffset, ...] = ()


class TransactionalId(NamedTuple):
    """A transactional id: its present producer, and its open or its last transaction.

    `last_producer_id` and `last_epoch` are those before the last change of the producer: with them
    a repeated request gets the same answer. `number` counts the transactions that have begun.
    Applying an edit sets `started_ms`, the time of the entry that began the open transaction, and
    `used_ms`, the time of the entry that changed the id last.
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
        """Whether the producer id has no further epoch for a client (isEpochExhausted)."""
        return self.epoch >= EPOCH_MAX - 1

    def begun(self) -> "TransactionalId":
        """Return the id with a transaction open: the same one, or a new one."""
        if self.is_open:
            return self
        return self._replace(status=TransactionStatus.ONGOING, number=self.number + 1)

    def with_partition(self, place: TransactionPartition) -> "TransactionalId":
        """Return the id with one more partition in its transaction."""
        # As `_replace` does it, in less than half the time: every produce needs it.
        before, behind = self[:_PARTITIONS_AT], self[_PARTITIONS_AT + 1 :]
        return TransactionalId._make((*before, (*self.partitions, place), *behind))

    def with_added(self, more: Added) -> "TransactionalId":
        """Return the id with more in its transaction."""
        offsets = self.offsets
        if more.offsets:  # a batch brings none, and the transaction may hold very many
            offsets = tuple({one[:3]: one for one in (*offsets, *more.offsets)}.values())
        return self._replace(
            partitions=tuple(dict.fromkeys((*self.partitions, *more.partitions))),
            groups=tuple(dict.fromkeys((*self.groups, *more.groups))),
            offsets=offsets,
        )

    def lacks(self, more: Added) -> Added:
        """Return the part of `more` that the transaction does not have yet."""
        newest = {one[:3]: one for one in more.offsets}
        return Added(
            _without(more.partitions, self.partitions),
            _without(more.groups, self.groups),
            _without(newest.values(), self.offsets),
        )

    def without_topics(self, names: Mapping[str, str]) -> "TransactionalId | None":
        """Return the id without the partitions and offsets of topics; None if it has none of them.

        `names` are by topic id. A topic that gets the name later must not have the offsets.
        """
        left = tuple(one for one in self.partitions if one.topic_id not in names)
        offsets = tuple(one for one in self.offsets if one.topic not in names.values())
        if (left, offsets) == (self.partitions, self.offsets):
            return None
        return self._replace(partitions=left, offsets=offsets)

    def without_offsets(
        self, group_id: str, places: Container[tuple[str, int]]
    ) -> "TransactionalId | None":
        """Return the id without a group's offsets of (topic, partition)s; None if it has none."""
        left = tuple(
            one for one in self.offsets if one.group_id != group_id or one[1:3] not in places
        )
        return None if left == self.offsets else self._replace(offsets=left)

    def at(self, known: "TransactionalId | None", now_ms: int) -> "TransactionalId":
        """Return the id with the times of an entry of `now_ms`; `known` is the id before it."""
        goes_on = known is not None and known.is_open and known.number == self.number
        started_ms = known.started_ms if known is not None and goes_on else now_ms
        return TransactionalId._make((*self[:-2], started_ms if self.is_open else 0, now_ms))


def _without(values: Iterable[T], known: Iterable[T]) -> tuple[T, ...]:
    """Return the values that are not known, each once."""
    held = set(known)
    return tuple(one for one in dict.fromkeys(values) if one not in held)


_PARTITIONS_AT: Final = TransactionalId._fields.index("partitions")


class TransactionalIds:
    """The transactional ids of a log dir. It is immutable."""

    __slots__ = ("_by_producer", "_held", "by_id", "open")

    def __init__(self, found: Iterable[TransactionalId] = ()) -> None:
        listed = list(found)
        self.by_id: Map[str, TransactionalId] = Map({one.transactional_id: one for one in listed})
        self.open: Map[str, TransactionalId] = Map(
            {one.transactional_id: one for one in listed if one.is_open}
        )
        """The ids with an open transaction."""
        self._by_producer: Map[int, str] = Map(
            {one.producer_id: one.transactional_id for one in listed}
        )
        self._held: frozenset[str] | None = None

    def get(self, transactional_id: str) -> TransactionalId | None:
        """Return an id; None for one that was never used, or that has expired."""
        return self.by_id.get(transactional_id)

    def of_producer(self, producer_id: int) -> TransactionalId | None:
        """Return the id whose present producer id this is; None if there is none."""
        name = self._by_producer.get(producer_id)
        return None if name is None else self.by_id[name]

    def pending(self, group_id: str) -> frozenset[tuple[str, int]]:
        """Return the (topic, partition)s for which an open transaction holds offsets of a group."""
        return frozenset(
            (one.topic, one.partition)
            for opened in self.open.values()
            for one in opened.offsets
            if one.group_id == group_id
        )

    def held_groups(self) -> frozenset[str]:
        """Return the groups for which open transactions hold offsets."""
        if self._held is None:
            every = self.open.values()
            self._held = frozenset(one.group_id for opened in every for one in opened.offsets)
        return self._held

    def after(
        self,
        changes: Mapping[str, TransactionalId | None],
        now_ms: int,
        added: Mapping[str, Added] = MappingProxyType({}),
    ) -> "TransactionalIds":
        """Return the ids after an entry's changes; None removes an id.

        `added` then joins the open transactions of ids. Raises CorruptMetadataError for an id
        without one: no such edit is committed (`check`).
        """
        if not changes and not added:
            return self
        ids, opened = self.by_id.mutate(), self.open.mutate()
        producers = self._by_producer.mutate()
        for name, change in changes.items():
            known = ids.get(name)
            new = None if change is None else change.at(known, now_ms)
            _set(ids, name, new)
            _set(opened, name, new if new is not None and new.is_open else None)
            if known is not None and (new is None or new.producer_id != known.producer_id):
                producers.pop(known.producer_id, None)
            if new is not None:
                producers[new.producer_id] = name
        for name, more in added.items():
            grows = opened.get(name)
            if grows is None:
                raise CorruptMetadataError(
                    f"an edit adds to the transaction of id {name!r}, which has none open"
                )
            ids[name] = opened[name] = grows.with_added(more)._replace(used_ms=now_ms)
        found = object.__new__(TransactionalIds)  # it has nothing to list
        found.by_id, found.open = ids.finish(), opened.finish()
        found._by_producer, found._held = producers.finish(), None
        return found


def _set(ids: MapMutation[str, TransactionalId], name: str, value: TransactionalId | None) -> None:
    """Set an id; None removes it."""
    if value is not None:
        ids[name] = value
    else:
        ids.pop(name, None)


NO_TRANSACTIONAL_IDS: Final = TransactionalIds()
