"""`Transactions`: the steps of transactions on a log dir, for any thread of any process."""

import os
from collections.abc import Container, Sequence
from functools import partial
from typing import Final

from sparklog.coordinator.offsets_topic import NUM_PARTITIONS, offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import (
    CommitConflictError,
    ErrorCode,
    InvalidProducerEpochError,
    UsageError,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.transactions import (
    NOBODY,
    Ending,
    Producer,
    Step,
    initialized,
    to_abort,
    to_abort_before_init,
    to_abort_in,
    to_end,
    to_time_out,
    with_group,
    with_offsets,
    with_partitions,
    without_offsets,
)
from sparklog.metadata.state.cluster import RANDOM_ID_BYTES, random_producer_id
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import (
    PendingOffset,
    TransactionalId,
    TransactionPartition,
)
from sparklog.transactions.end_group import End, Ends
from sparklog.transactions.timeouts import expired, without_expired
from sparklog.transactions.unended import check_unended

TIMEOUT_MAX_MS: Final = 900_000
"""The default of transaction.max.timeout.ms."""
TRIES: Final = 5


class EndOfStep(End):
    """The end that a client requests (EndTxn).

    A repeated request after the end has landed has the same outcome. With `bumps` the producer gets
    a new epoch (KIP-890).
    """

    def __init__(self, step: Step, *, is_commit: bool, bumps: bool) -> None:
        super().__init__(self._decided)
        self._step = step
        self._is_commit = is_commit
        self._bumps = bumps
        self._random_start = random_producer_id(os.urandom(RANDOM_ID_BYTES))
        self._seen: TransactionalId | None = None

    def _decided(self, image: Image) -> Ending | None:
        found = to_end(
            image,
            self._step,
            is_commit=self._is_commit,
            bumps=self._bumps,
            random_start=self._random_start,
        )
        if isinstance(found, Ending):
            self._seen = found.after
            return found
        self._seen = found
        return None

    @property
    def producer(self) -> Producer:
        """The producer with the epoch to use next. Raises the errors of `to_end` and `Ends.end`."""
        self.answer()
        assert self._seen is not None  # noqa: S101 - it was decided on
        return _producer(self._seen)


class Transactions:
    """The transactional ids of a log dir, and the steps of their producers."""

    def __init__(self, catalog: Catalog, timeout_max_ms: int = TIMEOUT_MAX_MS) -> None:
        self._catalog = catalog
        self._timeout_max_ms = timeout_max_ms
        self.ends = Ends(catalog)

    def init(self, transactional_id: str, timeout_ms: int, expected: Producer = NOBODY) -> Producer:
        """Return the producer of a transactional id, with the next epoch.

        An open transaction is aborted first.

        Raises UsageError for a timeout out of bounds (INVALID_TRANSACTION_TIMEOUT),
        ProducerFencedError if `expected` is not the newest producer of the id, CommitConflictError
        (CONCURRENT_TRANSACTIONS) if other producers of the id keep beginning transactions.
        """
        if not 0 < timeout_ms <= self._timeout_max_ms:
            raise UsageError(
                f"a transaction timeout of {timeout_ms} ms: allowed are 1 to "
                f"{self._timeout_max_ms} (transaction.max.timeout.ms)",
                code=ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            )
        for _ in range(TRIES):
            try:
                return self._initialized(transactional_id, timeout_ms, expected)
            except CommitConflictError as error:
                if error.code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
            self.ends.end(
                partial(to_abort_before_init, transactional_id=transactional_id, expected=expected)
            )
        raise CommitConflictError(
            f"transactional id {transactional_id!r}: other producers kept beginning transactions",
            code=ErrorCode.CONCURRENT_TRANSACTIONS,
        )

    def _initialized(self, transactional_id: str, timeout_ms: int, expected: Producer) -> Producer:
        start = random_producer_id(os.urandom(RANDOM_ID_BYTES))
        committed = self._catalog.log.commit(
            lambda image: initialized(image, transactional_id, timeout_ms, expected, start)
        )
        return _producer(_known(committed.image, transactional_id))

    def add_partitions(self, step: Step, partitions: Sequence[TransactionPartition]) -> None:
        """Add partitions to a transaction, and begin it if none is open. Raises as `of_step`."""
        self._catalog.log.commit(lambda image: with_partitions(image, step, partitions))

    def add_group(self, step: Step, group_id: str) -> None:
        """Add a group to a transaction, and begin it if none is open. Raises as `of_step`."""
        self._catalog.log.commit(lambda image: with_group(image, step, group_id))

    def commit_offsets(
        self,
        step: Step,
        group_id: str,
        offsets: Sequence[PendingOffset],
        *,
        adds_group: bool = True,
    ) -> None:
        """Keep offsets of a group until the end of the transaction commits or drops them.

        Creates __consumer_offsets if it does not exist. Raises as `with_offsets`.
        """
        if OFFSETS_TOPIC not in self._catalog.topics():
            offsets_topic(self._catalog, self._catalog.clock, NUM_PARTITIONS)
        self._catalog.log.commit(
            lambda image: with_offsets(image, step, group_id, offsets, adds_group=adds_group)
        )

    def drop_offsets(self, group_id: str, places: Container[tuple[str, int]]) -> None:
        """Drop a group's offsets of (topic, partition)s from all open transactions."""
        self._catalog.log.commit(lambda image: without_offsets(image, group_id, places))

    def end(self, step: Step, *, is_commit: bool, bumps: bool = True) -> Producer:
        """End a transaction as `EndOfStep` does; return the producer. Raises as `Ends.end`."""
        asked = EndOfStep(step, is_commit=is_commit, bumps=bumps)
        self.ends.settle(asked)
        return asked.producer

    def abort(self, transactional_id: str) -> bool:
        """Abort the open transaction of an id, and fence its producer; return whether one was open.

        A transaction that begins while the log is searched stays open: it returns False. Raises as
        `check_unended` and `Ends.end`.
        """
        known = self._catalog.image().transactional_ids.open.get(transactional_id)
        if known is None:
            return False
        check_unended(self._catalog, known.partitions, known.producer_id)
        ended = self.ends.end(lambda image: to_abort(image, transactional_id, known.number))
        return ended is not None

    def time_out(self, transactional_id: str, number: int) -> bool:
        """Abort a transaction that takes too long; return whether the one of `number` was open.

        Its producer may go on if it aborts, too (`to_time_out`). Raises as `Ends.end`.
        """
        return self.ends.end(lambda image: to_time_out(image, transactional_id, number)) is not None

    def abort_in(self, place: TransactionPartition, producer: Producer) -> bool:
        """Abort the transaction that a producer has open in a partition, in all its partitions.

        A transaction without a transactional id, as in an imported log, ends in this partition
        only. Returns False if the transaction is over once the log is searched. Raises
        InvalidProducerEpochError for an older epoch than that of the producer in the partition
        (ProducerAppendInfo.checkProducerEpoch), and as `to_abort_in`, `check_unended` and
        `Ends.end`.
        """
        image = self._catalog.log.image([place.topic_id])
        topic = image.topic(place.topic_id)
        states = {} if topic is None else topic.partition(place.partition).producers
        known = states.get(producer.producer_id)
        if known is not None and producer.epoch < known.epoch:
            raise InvalidProducerEpochError(
                f"partition {place.partition} of topic {place.topic_id}: a marker of epoch "
                f"{producer.epoch} of producer {producer.producer_id}, which has epoch "
                f"{known.epoch} now"
            )
        found = to_abort_in(image, place, producer)
        check_unended(self._catalog, found.before.partitions, producer.producer_id)

        def decide(image: Image) -> Ending | None:
            newest = to_abort_in(image, place, producer)
            return newest if newest.ends_as(found) else None

        return self.ends.end(decide) is not None

    def expire(self, before_ms: int) -> None:
        """Forget the ids that have no open transaction and were last used before `before_ms`.

        There may be very many ids, so it commits only if one of them has expired.
        """
        while expired(self._catalog.image().transactional_ids, before_ms):
            self._catalog.log.commit(partial(without_expired, before_ms=before_ms))

    def describe(self, transactional_id: str) -> TransactionalId:
        """Return an id's state. Raises UsageError (TRANSACTIONAL_ID_NOT_FOUND)."""
        return _known(self._catalog.image(), transactional_id)

    def list(self) -> Sequence[TransactionalId]:
        """Return the states of all transactional ids, sorted by id."""
        found = self._catalog.image().transactional_ids.by_id
        return [found[name] for name in sorted(found)]


def _known(image: Image, transactional_id: str) -> TransactionalId:
    found = image.transactional_ids.get(transactional_id)
    if found is None:
        raise UsageError(
            f"transactional id {transactional_id!r} is unknown: it was never used, or has expired",
            code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        )
    return found


def _producer(known: TransactionalId) -> Producer:
    return Producer(known.producer_id, known.epoch)
