"""Transactions of a log dir, for an administrator: listed, described, and ended by hand."""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from sparklog.errors import InvalidTxnStateError
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.transactions import Producer
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import TransactionalId, TransactionPartition
from sparklog.model import TopicPartition

if TYPE_CHECKING:
    from sparklog.transactions.steps import Transactions


class TransactionDescription(NamedTuple):
    """A transactional id; `state` is Kafka's: Empty, Ongoing, CompleteCommit, CompleteAbort.

    `started_ms`, `partitions` and `groups` are those of the open transaction: None and empty if
    none is open.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]
    groups: tuple[str, ...]


class TransactionAdmin:
    """The transactional ids of one log dir."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @property
    def _transactions(self) -> "Transactions":
        # Loaded with the first use: it writes segments.
        from sparklog.transactions.steps import Transactions

        return Transactions(self._catalog)

    def list(self, states: Collection[str]) -> list[TransactionDescription]:
        """Return the ids in one of these states, by name; in any state if `states` is empty."""
        image = self._catalog.image()
        found = (_described(image, one) for one in self._transactions.list())
        return [one for one in found if not states or one.state in states]

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return one id. Raises UsageError (TRANSACTIONAL_ID_NOT_FOUND)."""
        found = self._transactions.describe(transactional_id)
        return _described(self._catalog.image(), found)

    def abort(self, transactional_id: str) -> None:
        """Abort the open transaction of an id.

        Raises UsageError (TRANSACTIONAL_ID_NOT_FOUND), InvalidTxnStateError if none is open, or if
        the log has its marker already, CorruptRecordError and MissingFileError of the segments that
        are searched for one.
        """
        self._transactions.describe(transactional_id)
        if not self._transactions.abort(transactional_id):
            raise InvalidTxnStateError(
                f"transactional id {transactional_id!r} has no open transaction, or has begun "
                "another one meanwhile"
            )

    def abort_at(self, place: TopicPartition, start_offset: int) -> None:
        """Abort the open transaction that begins at an offset of a partition.

        Raises UnknownTopicError, InvalidTxnStateError if none is open from there on, if the log has
        its marker already, or if it has ended meanwhile, InvalidProducerEpochError if its producer
        has begun another one, CorruptRecordError and MissingFileError of the segments that are
        searched for a marker.
        """
        topic = self._catalog.topic(place.topic)
        log = self._catalog.partition(topic, place.partition)
        found = [one for one in log.transactions if one.first_offset == start_offset]
        if not found:
            began = ", ".join(str(one.first_offset) for one in log.transactions) or "none"
            raise InvalidTxnStateError(
                f"{log.name}: no open transaction begins at offset {start_offset}; open ones begin "
                f"at: {began}"
            )
        producer_id = found[0].producer_id
        state = log.producers.get(producer_id)
        producer = Producer(producer_id, state.epoch if state else 0)
        at = TransactionPartition(topic.topic_id, place.partition)
        if not self._transactions.abort_in(at, producer):
            raise InvalidTxnStateError(
                f"{log.name}: the transaction from offset {start_offset} on has ended meanwhile"
            )


def _described(image: Image, one: TransactionalId) -> TransactionDescription:
    return TransactionDescription(
        one.transactional_id,
        one.producer_id,
        one.epoch,
        str(one.status),
        one.timeout_ms,
        one.started_ms if one.is_open else None,
        tuple(
            TopicPartition(image.topics[place.topic_id].description.name, place.partition)
            for place in one.partitions
            if place.topic_id in image.topics
        ),
        one.groups,
    )
