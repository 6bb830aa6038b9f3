"""Batches that could not be appended, because of the storage: those behind them have to wait.

A producer without a state in a partition may begin with any sequence. If the storage fails its
first batch, the next one may be on its way already. It must not land alone: then the first one,
which the client sends again, would be out of order for ever. A broker has the same rule
(VerificationStateEntry.lowestSequence).

The client may send the batches again to another instance, which appends them. So a failure counts
only as long as the state that the producer then has: later the producer may begin anywhere again.
"""

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sparklog.errors import OutOfOrderSequenceError
from sparklog.group_commit.append_slots import Slot
from sparklog.metadata.state.transactions import TransactionPartition
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


class _Failure(NamedTuple):
    sequence: int
    failed_ms: int


class FailedFirsts:
    """The smallest sequence that failed, of each producer of a partition. For one thread."""

    def __init__(self) -> None:
        self._lowest: dict[_Key, _Failure] = {}

    def forget(self, before_ms: int) -> None:
        """Forget the producers whose last failure was before a time (ms)."""
        while self._lowest and next(iter(self._lowest.values())).failed_ms < before_ms:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        del self._lowest[next(iter(self._lowest))]

    def note(self, slot: Slot, now_ms: int) -> None:
        """Note a batch that failed now; it may be damaged."""
        topic_id, partition, batch = slot.append[:3]
        if len(batch) < layout.BATCH_HEADER_SIZE:
            return
        producer_id, epoch, sequence = _PRODUCER.unpack_from(batch, layout.PRODUCER_ID)
        if producer_id < 0:
            return
        key = _Key(TransactionPartition(topic_id, partition), producer_id, epoch)
        before = self._lowest.pop(key, None)  # so that the latest failure is the last one
        lowest = sequence if before is None else min(sequence, before.sequence)
        self._lowest[key] = _Failure(lowest, now_ms)
        if len(self._lowest) > KEPT:
            self._forget_oldest()

    def check(self, place: TransactionPartition, batch: "ClientBatch") -> None:
        """Check a batch of a producer without a state in the partition.

        Raises OutOfOrderSequenceError if it belongs behind one that failed.
        """
        failure = self._lowest.get(_Key(place, batch.producer_id, batch.producer_epoch))
        if failure is not None and batch.base_sequence > failure.sequence:
            raise OutOfOrderSequenceError(
                f"producer {batch.producer_id}, epoch {batch.producer_epoch}: a batch that begins "
                f"with sequence {batch.base_sequence}; the one of {failure.sequence} has failed"
            )

    def landed(self, place: TransactionPartition, batch: "ClientBatch") -> None:
        """Note a batch that was appended: from here on the producer has a state."""
        if self._lowest:
            self._lowest.pop(_Key(place, batch.producer_id, batch.producer_epoch), None)
