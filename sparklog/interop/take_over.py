"""Takes over a broker's transactional ids, so that their producers can go on here.

    Empty, Complete…     the id gets its producer and epoch here; its next transaction begins here
    Ongoing              the transaction is open here, with its partitions and its groups' offsets
    Prepare…             the broker has decided: the end is written here, in one entry with the id

An id that exists here stays as it is, so that an import may run again. If the producer of an open
transaction does not come back, the transaction is aborted after its timeout, as any other.

At the broker, a producer's transaction may hang: it is open in a partition, but the state of the
transactional id does not name the partition. Such a transaction is aborted before the id is taken
over. Otherwise the producer's next transaction in this partition would include its records.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sparklog.coordinator.offsets_topic import NUM_PARTITIONS, offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.interop.broker_dir import PartitionDir
from sparklog.interop.broker_dirs import BrokerDirs
from sparklog.interop.consumer_offsets import GroupOffset, pending_offsets
from sparklog.interop.transaction_state import (
    NO_PRODUCER,
    TRANSACTIONS_TOPIC,
    BrokerStatus,
    BrokerTransaction,
    broker_transactions,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.cluster import PRODUCER_IDS_END
from sparklog.metadata.edit import Done, Edit
from sparklog.metadata.image import Image
from sparklog.metadata.transaction_plans import Ending, Producer, to_abort_in
from sparklog.metadata.transactions import (
    EPOCH_MAX,
    NO_ID,
    PendingOffset,
    TransactionalId,
    TransactionPartition,
    TransactionStatus,
)
from sparklog.model import TopicPartition
from sparklog.transactions.end_group import Ends

TAKE_OVER: Final = "TAKE OVER TRANSACTIONAL IDS"

_RESTING: Final = {
    BrokerStatus.EMPTY: TransactionStatus.EMPTY,
    BrokerStatus.ONGOING: TransactionStatus.ONGOING,
    BrokerStatus.COMPLETE_COMMIT: TransactionStatus.COMMITTED,
    BrokerStatus.COMPLETE_ABORT: TransactionStatus.ABORTED,
}
"""The status here for a broker's status. Transactions with another status are ended here."""


class TakenId(NamedTuple):
    """The outcome for a broker's transactional id; `problem` tells why it was not taken over.

    `aborted` are partitions in which a hanging transaction of its producer was aborted.
    """

    transactional_id: str
    producer_id: int
    state: str
    aborted: tuple[str, ...] = ()
    problem: str | None = None

    def as_row(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return {**self._asdict(), "aborted": list(self.aborted)}


def take_over(catalog: Catalog, log_dirs: Sequence[str]) -> list[TakenId]:
    """Take over the transactional ids of stopped brokers, after an import of their topics.

    Partitions of topics that do not exist here are left out. Returns the outcome for each id, by
    name. Raises LogDirError (also if a broker is running on a directory), CorruptRecordError, and
    the errors of a commit.
    """
    broker = BrokerDirs(log_dirs)
    with broker.stopped():
        found = broker.partitions()
        ids = broker_transactions(_of(found, TRANSACTIONS_TOPIC))
        offsets = pending_offsets(_of(found, OFFSETS_TOPIC))
        if offsets:
            offsets_topic(catalog, catalog.clock, NUM_PARTITIONS)
        return _taken_over(catalog, ids, offsets)


def _of(partitions: Sequence[PartitionDir], topic: str) -> list[PartitionDir]:
    return [one for one in partitions if one.topic_partition.topic == topic]


def _taken_over(
    catalog: Catalog,
    ids: Sequence[BrokerTransaction],
    offsets: Mapping[int, Sequence[GroupOffset]],
) -> list[TakenId]:
    before = catalog.image()
    problems = {one.transactional_id: _problem(before, one) for one in ids}
    taken = [one for one in ids if problems[one.transactional_id] is None]
    aborted = _without_hanging(catalog, taken)
    if taken:
        catalog.log.commit(partial(_resting, ids=ids, offsets=offsets))
    for one in ids:
        if one.status not in _RESTING:
            Ends(catalog).end(partial(_prepared, one=one, offsets=offsets.get(one.producer_id, ())))
    after = catalog.image().transactional_ids.by_id
    return [
        TakenId(name, after[name].producer_id, str(after[name].status), aborted(one), problem)
        if name in after
        else TakenId(name, one.producer_id, one.status.name, problem=problem)
        for one in ids
        for name, problem in [(one.transactional_id, problems[one.transactional_id])]
    ]


def _without_hanging(
    catalog: Catalog, ids: Sequence[BrokerTransaction]
) -> Callable[[BrokerTransaction], tuple[str, ...]]:
    """Abort hanging transactions; return a function: an id to the partitions of those aborted."""
    found: dict[int, list[str]] = {}
    held = {one.producer_id: _held(one) for one in ids}
    topics = catalog.topics().values() if held else ()
    image = catalog.image(*topics)
    for topic in topics:
        for number, log in sorted(image.topics[topic.topic_id].partitions.items()):
            for producer_id, _ in log.transactions:
                place = TopicPartition(topic.name, number)
                if place not in held.get(producer_id, (place,)):
                    state = log.producers.get(producer_id)
                    producer = Producer(producer_id, state.epoch if state else 0)
                    where = TransactionPartition(topic.topic_id, number)
                    Ends(catalog).end(partial(to_abort_in, place=where, producer=producer))
                    found.setdefault(producer_id, []).append(str(place))
    return lambda one: tuple(found.get(one.producer_id, ()))


def _held(one: BrokerTransaction) -> Collection[TopicPartition]:
    """Return the partitions in which an id's transaction may be open."""
    is_over = one.status in _RESTING and one.status is not BrokerStatus.ONGOING
    return () if is_over else one.partitions


def _problem(image: Image, one: BrokerTransaction) -> str | None:
    """Return why an id cannot be taken over; None if it can."""
    if one.transactional_id in image.transactional_ids.by_id:
        return "it is here already, and stays as it is"
    for producer_id in (one.producer_id, one.next_producer_id):
        other = image.transactional_ids.of_producer(producer_id)
        if other is not None:
            return f"producer id {producer_id} belongs to {other.transactional_id!r} here"
    return None


def _resting(
    image: Image, ids: Sequence[BrokerTransaction], offsets: Mapping[int, Sequence[GroupOffset]]
) -> Edit | Done:
    """Return the edit that takes over all ids without a prepared end."""
    taken = {
        one.transactional_id: _opened(image, one, offsets.get(one.producer_id, ()))
        for one in ids
        if one.status in _RESTING and _problem(image, one) is None
    }
    if not taken:
        return Done()
    return Edit(
        operation=TAKE_OVER,
        parameters={"transactionalIds": ", ".join(taken)},
        transactional_ids=taken,
        next_producer_id=max(map(_next_id, ids)),
    )


def _next_id(one: BrokerTransaction) -> int:
    """Return the first producer id above the producer ids of a transactional id."""
    return min(max(one.producer_id, one.next_producer_id) + 1, PRODUCER_IDS_END)


def _opened(
    image: Image, one: BrokerTransaction, offsets: Sequence[GroupOffset]
) -> TransactionalId:
    """Return an id as it is here, with the partitions, groups and offsets of its transaction."""
    status = _RESTING.get(one.status, TransactionStatus.ONGOING)
    known = TransactionalId(
        one.transactional_id, one.producer_id, one.epoch, one.timeout_ms, status, *_last(one)
    )
    if not known.is_open:
        return known
    # Here its offsets are in the image until it ends, so __consumer_offsets is no partition of it.
    names = {name: topic for name, topic in image.names.items() if name != OFFSETS_TOPIC}
    held = [of for of in offsets if of.topic in names]
    return known._replace(
        number=1,
        partitions=tuple(
            TransactionPartition(names[topic].topic_id, number)
            for topic, number in one.partitions
            if topic in names and number < names[topic].num_partitions
        ),
        groups=tuple(dict.fromkeys(of.group for of in held)),
        offsets=tuple(PendingOffset(*of[:-1]) for of in held),
    )


def _last(one: BrokerTransaction) -> tuple[int, int]:
    """Return id and epoch of the producer before the last end; it may repeat that end (KIP-890)."""
    if one.bumps and one.status is not BrokerStatus.ONGOING:
        if one.epoch > 0:
            return one.producer_id, one.epoch - 1
        if one.previous_producer_id != NO_PRODUCER:
            return one.previous_producer_id, EPOCH_MAX - 1
    return NO_ID, NO_ID


def _prepared(
    image: Image, one: BrokerTransaction, offsets: Sequence[GroupOffset]
) -> Ending | None:
    """Return the end that a broker has prepared; its markers have the epoch in the broker's record.

    Returns None if the id cannot be taken over.
    """
    if _problem(image, one) is not None:
        return None
    is_commit = one.status is BrokerStatus.PREPARE_COMMIT
    before = _opened(image, one, offsets)
    after = before._replace(
        status=TransactionStatus.COMMITTED if is_commit else TransactionStatus.ABORTED,
        partitions=(),
        groups=(),
        offsets=(),
    )
    if one.next_producer_id != NO_PRODUCER:
        after = after._replace(producer_id=one.next_producer_id, epoch=0)
    return Ending(before, after, is_commit, one.epoch, _next_id(one))
