"""Batches that could not be appended, because of the storage: those behind them have to wait.

A producer without a state in a partition may begin with any sequence. If the storage fails its
first batch, the next one may be on its way already. It must not land alone: then the first one,
which the client sends again, would be out of order for ever. A broker has the same rule
(VerificationStateEntry.lowestSequence).
"""

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sparklog.errors import OutOfOrderSequenceError
from sparklog.group_commit.append_slots import Slot
from sparklog.metadata.transactions import TransactionPartition
from sparklog.record import layout

if TYPE_CHECKING:
    from sparklog.record.client_batch import ClientBatch

KEPT: Final = 10_000
"""How many producers are kept, of all partitions; the oldest one goes first."""

_PRODUCER: Final = struct.Struct(">qhi")
"""The producer id, the epoch and the base sequence in a batch's header."""


class _Key(NamedTuple):
    place: TransactionPartition
    producer_id: int
    epoch: int


class FailedFirsts:
    """The smallest sequence that failed, of each producer of a partition. For one thread."""

    def __init__(self) -> None:
        self._lowest: dict[_Key, int] = {}

    def note(self, slot: Slot) -> None:
        """Note a batch that failed; it may be damaged."""
        topic_id, partition, batch = slot.append[:3]
        if len(batch) < layout.BATCH_HEADER_SIZE:
            return
        producer_id, epoch, sequence = _PRODUCER.unpack_from(batch, layout.PRODUCER_ID)
        if producer_id < 0:
            return
        key = _Key(TransactionPartition(topic_id, partition), producer_id, epoch)
        self._lowest[key] = min(sequence, self._lowest.pop(key, sequence))
        if len(self._lowest) > KEPT:
            del self._lowest[next(iter(self._lowest))]

    def check(self, place: TransactionPartition, batch: "ClientBatch") -> None:
        """Check a batch of a producer without a state in the partition.

        Raises OutOfOrderSequenceError if it belongs behind one that failed.
        """
        lowest = self._lowest.get(_Key(place, batch.producer_id, batch.producer_epoch))
        if lowest is not None and batch.base_sequence > lowest:
            raise OutOfOrderSequenceError(
                f"producer {batch.producer_id}, epoch {batch.producer_epoch}: a batch that begins "
                f"with sequence {batch.base_sequence} before the one of {lowest}, which has failed"
            )

    def landed(self, place: TransactionPartition, batch: "ClientBatch") -> None:
        """Note a batch that was appended: from here on the producer has a state."""
        if self._lowest:
            self._lowest.pop(_Key(place, batch.producer_id, batch.producer_epoch), None)
