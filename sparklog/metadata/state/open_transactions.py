"""The open transactions of a partition: read_committed readers wait for their ends."""

from typing import NamedTuple

from sparklog.metadata.state.partition_log import PartitionLog
from sparklog.metadata.state.transactions import TransactionalIds, TransactionPartition


class OpenedTransaction(NamedTuple):
    """A transaction that is open in a partition, with its first offset there.

    `transactional_id` is None if no transactional id of this log dir has the transaction, as in an
    imported log. `since_ms` is when the transaction began. Without an id it is when the segment of
    its first record was made here; None if that segment is gone.
    """

    partition: int
    first_offset: int
    producer_id: int
    transactional_id: str | None
    since_ms: int | None


def opened_in(topic_id: str, log: PartitionLog, ids: TransactionalIds) -> list[OpenedTransaction]:
    """Return the open transactions of a partition, by their first offsets."""
    found = []
    for producer_id, first in sorted(log.transactions, key=lambda one: one.first_offset):
        known = ids.of_producer(producer_id)
        place = TransactionPartition(topic_id, log.partition)
        if known is not None and known.is_open and place in known.partitions:
            name, since_ms = known.transactional_id, known.started_ms
            found.append(OpenedTransaction(log.partition, first, producer_id, name, since_ms))
        else:
            since = _made_ms(log, first)
            found.append(OpenedTransaction(log.partition, first, producer_id, None, since))
    return found


def _made_ms(log: PartitionLog, offset: int) -> int | None:
    """Return when (ms) the segment that holds an offset was made; None if there is none."""
    behind = log.entries(offset)
    return behind[0].created_ms if behind and behind[0].base_offset <= offset else None
