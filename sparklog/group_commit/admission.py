"""Admission: a transactional batch is appended only while its partition is in an open transaction.

The plan of the append checks this, on the image that the commit follows. So a late batch cannot get
into the producer's next transaction. Nor can it come after the end marker of its own transaction,
where no other marker would end it (KIP-890).
"""

from typing import TYPE_CHECKING, Final

from sparklog.errors import ErrorCode, InvalidProducerEpochError, InvalidTxnStateError
from sparklog.group_commit.append_slots import Slot
from sparklog.group_commit.failed_firsts import FailedFirsts
from sparklog.metadata.state.transactions import (
    Added,
    TransactionalId,
    TransactionalIds,
    TransactionPartition,
)

if TYPE_CHECKING:
    from sparklog.record.client_batch import ClientBatch

ADDS_FROM: Final = 12
"""The first version of Produce that itself adds its partitions to the transaction (KIP-890)."""
ABORTABLE_FROM: Final = 11
"""The first version of Produce that gets the error TRANSACTION_ABORTABLE (KIP-890)."""


class Admission:
    """The transactions in one plan; `changed` has the transactional ids that the plan changes.

    The edit has `begun`, the ids whose transactions the plan begins, and `added`, the partitions
    that it adds to open ones.
    """

    def __init__(self, ids: TransactionalIds, failed: FailedFirsts) -> None:
        """`failed` are the batches that this process could not append."""
        self.ids = ids
        self.failed = failed
        self.changed: dict[str, TransactionalId] = {}

    def check(self, slot: Slot, batch: "ClientBatch", place: TransactionPartition) -> None:
        """Refuse a transactional batch that may not be appended.

        Raises InvalidProducerEpochError for another epoch than the present one, and
        InvalidTxnStateError with the code INVALID_PRODUCER_ID_MAPPING if the producer is not that
        of the transactional id that the request names. Below version 12 of Produce it also raises
        InvalidTxnStateError if the producer has no open transaction in the partition; in version
        11 with the code TRANSACTION_ABORTABLE. From 12 on the batch adds the partition.
        """
        known, version = self._of(batch.producer_id), slot.produce_version
        if known is None:
            raise InvalidTxnStateError(
                f"{_described(batch, place)}: no transactional id has this producer",
                code=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            )
        if known.transactional_id != slot.transactional_id:
            # The message does not name the owner: the client may have no right to know it.
            raise InvalidTxnStateError(
                f"{_described(batch, place)}: it is not the producer of transactional id "
                f"{slot.transactional_id!r}",
                code=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            )
        if batch.producer_epoch != known.epoch:
            raise InvalidProducerEpochError(
                f"{_described(batch, place)}: it has epoch {known.epoch} now"
            )
        if version < ADDS_FROM and not _is_in(place, known):
            is_abortable = version >= ABORTABLE_FROM
            raise InvalidTxnStateError(
                f"{_described(batch, place)}: the partition is in no open transaction of it",
                code=ErrorCode.TRANSACTION_ABORTABLE
                if is_abortable
                else ErrorCode.INVALID_TXN_STATE,
            )

    def take(self, producer_id: int, place: TransactionPartition) -> None:
        """Note a batch that is appended: begin its transaction, or add its partition, if needed."""
        known = self._of(producer_id)
        if known is not None and not _is_in(place, known):
            self.changed[known.transactional_id] = known.begun().with_partition(place)

    @property
    def begun(self) -> dict[str, TransactionalId]:
        """The changed ids that had no open transaction."""
        return {name: one for name, one in self.changed.items() if name not in self.ids.open}

    @property
    def added(self) -> dict[str, Added]:
        """The new partitions of each changed id that had an open transaction."""
        return {
            name: Added(partitions=one.partitions[len(self.ids.open[name].partitions) :])
            for name, one in self.changed.items()
            if name in self.ids.open
        }

    def _of(self, producer_id: int) -> TransactionalId | None:
        known = self.ids.of_producer(producer_id)
        return None if known is None else self.changed.get(known.transactional_id, known)


def _is_in(place: TransactionPartition, known: TransactionalId) -> bool:
    """Whether a partition is in an open transaction of an id."""
    return known.is_open and place in known.partitions


def _described(batch: "ClientBatch", place: TransactionPartition) -> str:
    return (
        f"producer {batch.producer_id}, epoch {batch.producer_epoch}, partition "
        f"{place.partition} of topic {place.topic_id}"
    )
