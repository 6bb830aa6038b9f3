"""Takes over a broker's transactional ids, so that their producers can go on here.

    Empty, Complete…     the id is stored here with its producer id and epoch
    Ongoing              also its transaction is open here, with its partitions and groups' offsets
    Prepare…             the broker has decided on commit or abort: one entry ends the transaction
                         here and stores the id

An id that exists here stays as it is, so that an import may run again. If the producer of an open
transaction does not come back, the transaction is aborted after its timeout, as any other.

At the broker, a producer's transaction may hang: it is open in a partition, but the state of the
transactional id does not name the partition. Such a transaction is aborted before the id is taken
over. Otherwise the producer's next transaction in this partition would include its records.

A partition here may be older than the broker's: then the broker may have ended a transaction that
is open here. So the id of a transaction stays at the broker unless the log of each of its
partitions ends where the import of this partition ended.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from sparklog.coordinator.offsets_topic import NUM_PARTITIONS, offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.imports.broker_dirs import BrokerDirs, end_of
from sparklog.interop.imports.consumer_offsets import GroupOffset, pending_offsets
from sparklog.interop.imports.transaction_state import (
    NO_PRODUCER,
    TRANSACTIONS_TOPIC,
    BrokerStatus,
    BrokerTransaction,
    broker_transactions,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.transactions import Ending, Producer, to_abort_in
from sparklog.metadata.state.cluster import PRODUCER_IDS_END
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.metadata.state.transactions import (
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
KEPT: Final = "it is here already, and stays as it is"

_RESTING: Final = {
    BrokerStatus.EMPTY: TransactionStatus.EMPTY,
    BrokerStatus.ONGOING: TransactionStatus.ONGOING,
    BrokerStatus.COMPLETE_COMMIT: TransactionStatus.COMMITTED,
    BrokerStatus.COMPLETE_ABORT: TransactionStatus.ABORTED,
}
"""The status here for a broker's status. Transactions with another status are ended here."""

Logs = Mapping[TopicPartition, PartitionLog]
"""The partitions here."""


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

    @property
    def is_refused(self) -> bool:
        """Return True if the id was neither taken over nor here before."""
        return self.problem not in (None, KEPT)


def take_over(catalog: Catalog, log_dirs: Sequence[str]) -> list[TakenId]:
    """Take over the transactional ids of stopped brokers, after an import of their topics.

    Partitions of topics that do not exist here are left out. An id is refused if a partition of its
    transaction is older here than in `log_dirs`, or is not in them. Returns the outcome for each
    id, by name. Raises LogDirError (also if a broker is running on a directory),
    CorruptRecordError, and the errors of a commit.
    """
    broker = BrokerDirs(log_dirs)
    with broker.stopped():
        found = broker.partitions()
        ids = broker_transactions(_of(found, TRANSACTIONS_TOPIC))
        offsets = pending_offsets(_of(found, OFFSETS_TOPIC))
        if offsets:
            offsets_topic(catalog, catalog.clock, NUM_PARTITIONS)
        sources = {one.topic_partition: one for one in found if one.problem is None}
        return _taken_over(catalog, ids, offsets, sources)


def _of(partitions: Sequence[PartitionDir], topic: str) -> list[PartitionDir]:
    return [one for one in partitions if one.topic_partition.topic == topic]


def _taken_over(
    catalog: Catalog,
    ids: Sequence[BrokerTransaction],
    offsets: Mapping[int, Sequence[GroupOffset]],
    sources: Mapping[TopicPartition, PartitionDir],
) -> list[TakenId]:
    topics = catalog.topics().values() if ids else ()
    before = catalog.image(*topics)
    logs = {
        TopicPartition(topic.name, number): before.topics[topic.topic_id].partition(number)
        for topic in topics
        for number in range(topic.num_partitions)
    }
    opened = _opened_by(logs)
    places = {one.producer_id: opened.get(one.producer_id, ()) for one in ids}
    is_current = cache(partial(_is_current, logs=logs, sources=sources))
    problems = {
        one.transactional_id: _problem(before, one)
        or _outdated([*places[one.producer_id], *_held(one)], logs, is_current)
        for one in ids
    }
    taken = [one for one in ids if problems[one.transactional_id] is None]
    aborted = {
        one.producer_id: _without_hanging(catalog, one, before, places[one.producer_id])
        for one in taken
    }
    if taken:
        next_id = max(map(_next_id, ids))
        catalog.log.commit(partial(_resting, ids=taken, offsets=offsets, next_id=next_id))
    for one in taken:
        if one.status not in _RESTING:
            Ends(catalog).end(partial(_prepared, one=one, offsets=offsets.get(one.producer_id, ())))
    image = catalog.image()
    return [
        _outcome(image, one, problems[one.transactional_id], aborted.get(one.producer_id, ()))
        for one in ids
    ]


def _outcome(
    image: Image, one: BrokerTransaction, problem: str | None, aborted: tuple[str, ...]
) -> TakenId:
    """Return the outcome for an id; `problem` was found before anything was committed."""
    name, known = one.transactional_id, image.transactional_ids.by_id.get(one.transactional_id)
    if known is None:
        found = problem or _problem(image, one)
        return TakenId(name, one.producer_id, one.status.name, problem=found)
    return TakenId(name, known.producer_id, str(known.status), aborted, problem)


def _opened_by(logs: Logs) -> Mapping[int, Sequence[TopicPartition]]:
    """Return the partitions in which each producer has an open transaction."""
    found: dict[int, list[TopicPartition]] = {}
    for place, log in logs.items():
        for producer_id, _ in log.transactions:
            found.setdefault(producer_id, []).append(place)
    return found


def _is_current(
    place: TopicPartition, logs: Logs, sources: Mapping[TopicPartition, PartitionDir]
) -> bool:
    """Whether the broker's log of a partition ends where the last import of it ended."""
    source = sources.get(place)
    return source is not None and end_of(source)[1] == logs[place].imported_end_offset


def _outdated(
    places: Iterable[TopicPartition], logs: Logs, is_current: Callable[[TopicPartition], bool]
) -> str | None:
    """Return the problem of a transaction in partitions that are older here; None without one."""
    for place in places:
        if place.topic != OFFSETS_TOPIC and place in logs and not is_current(place):
            return f"{place} is not here up to the end of the broker's log: import it again, too"
    return None


def _without_hanging(
    catalog: Catalog, one: BrokerTransaction, image: Image, places: Iterable[TopicPartition]
) -> tuple[str, ...]:
    """Abort a producer's hanging transactions; return their partitions.

    `places` are the partitions in which it has an open one.
    """
    hanging = [place for place in places if place not in _held(one)]
    for topic, number in hanging:
        where = TransactionPartition(image.names[topic].topic_id, number)
        log = image.topics[where.topic_id].partition(number)
        state = log.producers.get(one.producer_id)
        producer = Producer(one.producer_id, state.epoch if state else 0)
        Ends(catalog).end(partial(to_abort_in, place=where, producer=producer))
    return tuple(map(str, hanging))


def _held(one: BrokerTransaction) -> Collection[TopicPartition]:
    """Return the partitions in which an id's transaction may be open."""
    is_over = one.status in _RESTING and one.status is not BrokerStatus.ONGOING
    return () if is_over else one.partitions


def _problem(image: Image, one: BrokerTransaction) -> str | None:
    """Return why an id cannot be taken over; None if it can."""
    if one.transactional_id in image.transactional_ids.by_id:
        return KEPT
    for producer_id in (one.producer_id, one.next_producer_id):
        other = image.transactional_ids.of_producer(producer_id)
        if other is not None:
            return f"producer id {producer_id} belongs to {other.transactional_id!r} here"
    return None


def _resting(
    image: Image,
    ids: Sequence[BrokerTransaction],
    offsets: Mapping[int, Sequence[GroupOffset]],
    next_id: int,
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
        next_producer_id=next_id,
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
