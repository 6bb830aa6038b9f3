"""The steps of transactions, as plans: pure functions of an image.

    initialized      InitProducerId: the producer of a transactional id, with the next epoch
    with_partitions  AddPartitionsToTxn        begins a transaction if none is open
    with_group       AddOffsetsToTxn           the same
    with_offsets     TxnOffsetCommit           offsets that are committed if the transaction is
    without_offsets  OffsetDelete, DeleteGroups: takes a group's offsets out of open transactions
    to_end           EndTxn                    the end of the transaction, or a repeated end

Rules and codes are those of Kafka 4.1.1's TransactionCoordinator and TransactionMetadata (KIP-98,
KIP-360, KIP-890). A step whose transaction is over is always refused.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from sparklog.errors import (
    CommitConflictError,
    ErrorCode,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    ProducerFencedError,
    UnknownTopicError,
)
from sparklog.metadata.plans.cluster import fresh_producer_id
from sparklog.metadata.plans.topics import live, live_of_id
from sparklog.metadata.state.cluster import FIRST_PRODUCER_ID
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import (
    EPOCH_MAX,
    NO_ID,
    Added,
    PendingOffset,
    TransactionalId,
    TransactionPartition,
    TransactionStatus,
)

INIT: Final = "INIT PRODUCER ID"
ADD_TO_TRANSACTION: Final = "ADD TO TRANSACTION"
DROP_OFFSETS: Final = "DROP OFFSETS"
NOT_AN_ID: Final = ""
"""Means "no transactional id". Clients may not use an empty id."""


class Producer(NamedTuple):
    """A producer as it names itself: its id and its epoch; NO_ID for a missing one."""

    producer_id: int = NO_ID
    epoch: int = NO_ID


NOBODY: Final = Producer()


class Step(NamedTuple):
    """A step that a producer takes with a transactional id.

    `number` is that of the transaction that the step belongs to; None if its epoch decides.
    """

    transactional_id: str
    producer: Producer
    number: int | None = None


def edit_of_ids(operation: str, *changed: TransactionalId, next_id: int | None = None) -> Edit:
    """Return the edit that sets transactional ids."""
    ids = {one.transactional_id: one for one in changed}
    parameters = {"transactionalIds": ", ".join(ids)}
    return Edit(
        operation=operation, parameters=parameters, transactional_ids=ids, next_producer_id=next_id
    )


def initialized(
    image: Image, transactional_id: str, timeout_ms: int, expected: Producer, random_start: int
) -> Edit | Done:
    """Return the edit that gives a transactional id its next epoch; Done for a repeated request.

    `expected` is the producer that goes on after an error (KIP-360). Raises ProducerFencedError if
    it is not the newest producer, CommitConflictError while a transaction is open: the caller ends
    it first.
    """
    known = image.transactional_ids.get(transactional_id)
    fresh = fresh_producer_id(image, random_start)
    if known is None:
        new = TransactionalId(transactional_id, fresh, 0, timeout_ms)
        return edit_of_ids(INIT, new, next_id=fresh + 1)
    _check_goes_on(known, expected)
    has_expected = expected.producer_id != NO_ID
    if known.is_open:
        raise CommitConflictError(
            f"transactional id {transactional_id!r}: the transaction before is still open",
            code=ErrorCode.CONCURRENT_TRANSACTIONS,
        )
    rested = known._replace(timeout_ms=timeout_ms, status=TransactionStatus.EMPTY)
    if has_expected and expected.epoch != known.epoch:
        return Done() if rested == known else edit_of_ids(INIT, rested)
    last = Producer(known.producer_id, known.epoch) if has_expected else NOBODY
    rested = rested._replace(last_producer_id=last.producer_id, last_epoch=last.epoch)
    if known.is_exhausted:
        new = rested._replace(producer_id=fresh, epoch=0)
        return edit_of_ids(INIT, new, next_id=fresh + 1)
    return edit_of_ids(INIT, rested._replace(epoch=known.epoch + 1))


def _check_goes_on(known: TransactionalId, expected: Producer) -> None:
    """Refuse a producer that is not the newest of its id, nor was it until the last change."""
    last = Producer(known.last_producer_id, known.last_epoch)
    newest = Producer(known.producer_id, known.epoch)
    if expected.producer_id != NO_ID and expected not in (newest, last):
        raise ProducerFencedError(
            f"transactional id {known.transactional_id!r}: producer {expected.producer_id} of "
            f"epoch {expected.epoch}; it is {known.producer_id} of epoch {known.epoch} now"
        )


def of_step(image: Image, step: Step) -> TransactionalId:
    """Return the id of a step.

    Raises ProducerFencedError for another epoch, and with the code INVALID_PRODUCER_ID_MAPPING for
    an unknown id or one with another producer; InvalidTxnStateError for a step of a transaction
    that is over.
    """
    known = _mapped(image, step)
    if step.producer != (known.producer_id, known.epoch):
        raise _fenced(known, step)
    if step.number not in (None, known.begun().number):
        raise _late(step)
    return known


def bound(image: Image, step: Step, *, ends: bool = False) -> Step:
    """Return a step with the number of its transaction, as the image on its arrival has it.

    That is the open transaction. If none is open, it is the last one for a step that `ends` one,
    and the next one for other steps. Only clients of KIP-890 have an epoch for each transaction:
    without the number, an older client's delayed step would count for a later transaction.
    """
    known = image.transactional_ids.get(step.transactional_id)
    if known is None:
        return step
    return step._replace(number=known.number if ends else known.begun().number)


def _late(step: Step) -> InvalidTxnStateError:
    return InvalidTxnStateError(
        f"transactional id {step.transactional_id!r}: a step of its transaction {step.number}, "
        f"which is over"
    )


def _mapped(image: Image, step: Step) -> TransactionalId:
    known = image.transactional_ids.get(step.transactional_id)
    producer_id = step.producer.producer_id
    ids = () if known is None else (known.producer_id, known.last_producer_id)
    if known is None or producer_id == NO_ID or producer_id not in ids:
        raise ProducerFencedError(
            f"transactional id {step.transactional_id!r} has no producer {producer_id}",
            code=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        )
    return known


def _fenced(known: TransactionalId, step: Step) -> ProducerFencedError:
    return ProducerFencedError(
        f"transactional id {step.transactional_id!r}: epoch {step.producer.epoch} of producer "
        f"{step.producer.producer_id}; it is {known.epoch} of {known.producer_id} now"
    )


def with_partitions(
    image: Image, step: Step, partitions: Iterable[TransactionPartition]
) -> Edit | Done:
    """Return the edit that adds partitions to a transaction; Done if it has them all.

    Raises as `of_step` does, and UnknownTopicError if a topic was deleted meanwhile.
    """
    known = of_step(image, step)
    more = Added(partitions=tuple(partitions))
    for one in more.partitions:
        live_of_id(image, one.topic_id)
    return _grown(known, more)


def with_group(image: Image, step: Step, group_id: str) -> Edit | Done:
    """Return the edit that adds a group to a transaction; Done if it has the group.

    Raises as `of_step` does.
    """
    return _grown(of_step(image, step), Added(groups=(group_id,)))


def with_offsets(
    image: Image, step: Step, group_id: str, offsets: Sequence[PendingOffset], *, adds_group: bool
) -> Edit | Done:
    """Return the edit that keeps a group's offsets until the transaction ends.

    With `adds_group` the group may be new in the transaction (KIP-890). Raises as `of_step` does,
    InvalidTxnStateError for a group that was not added, and UnknownTopicError if a partition was
    deleted meanwhile: else a topic that is made before the end would have the offset.
    """
    known = of_step(image, step)
    if not adds_group and not (known.is_open and group_id in known.groups):
        raise InvalidTxnStateError(
            f"transactional id {step.transactional_id!r} has no open transaction with group "
            f"{group_id!r}"
        )
    for one in offsets:
        if one.partition >= live(image, one.topic).num_partitions:
            raise UnknownTopicError(f"topic {one.topic!r} has no partition {one.partition}")
    return _grown(known, Added(groups=(group_id,), offsets=tuple(offsets)))


def without_offsets(image: Image, group_id: str, places: Container[tuple[str, int]]) -> Edit | Done:
    """Return the edit that drops a group's offsets of (topic, partition)s from open transactions.

    An offset that is deleted must not come back when a transaction commits
    (OffsetMetadataManager.replay). Done if no transaction holds one.
    """
    opened = image.transactional_ids.open.values()
    left = [one.without_offsets(group_id, places) for one in opened]
    changed = [one for one in left if one is not None]
    return edit_of_ids(DROP_OFFSETS, *changed) if changed else Done()


def _grown(known: TransactionalId, more: Added) -> Edit | Done:
    """Return the edit that adds to a transaction, or begins it; Done if it has all of that.

    The edit of an open transaction has only what is new: the transaction may hold very much.
    """
    if not known.is_open:
        return edit_of_ids(ADD_TO_TRANSACTION, known.begun().with_added(more))
    new = known.lacks(more)
    if not any(new):
        return Done()
    name = known.transactional_id
    parameters = {"transactionalIds": name}
    return Edit(
        operation=ADD_TO_TRANSACTION, parameters=parameters, added_to_transactions={name: new}
    )


class Ending(NamedTuple):
    """The end of a transaction: its id before and after the end, and the epoch of its markers.

    The id is NOT_AN_ID for a transaction without a transactional id.
    """

    before: TransactionalId
    after: TransactionalId
    is_commit: bool
    marker_epoch: int
    next_id: int | None = None

    def ends_as(self, other: "Ending") -> bool:
        """Return True if both end one transaction. Without ids, the caller compares partitions."""
        mine, others = self.before, other.before
        return (mine.transactional_id, mine.number) == (others.transactional_id, others.number)


def to_end(
    image: Image, step: Step, *, is_commit: bool, bumps: bool, random_start: int
) -> Ending | TransactionalId:
    """Return the end that a client asks for; if it has happened already, the id as it is.

    With `bumps` (EndTxn 5, KIP-890) each end raises the epoch, also that of an empty transaction.
    Raises as `of_step` does, and InvalidTxnStateError if there is no such transaction to end.
    """
    known = _mapped(image, step)
    is_newest = step.producer == (known.producer_id, known.epoch)
    is_over = known.status in (TransactionStatus.COMMITTED, TransactionStatus.ABORTED)
    is_last = step.producer == (known.last_producer_id, known.last_epoch)
    is_again = bumps and is_over and is_last
    if not is_newest and not is_again:
        raise _fenced(known, step)
    if known.is_open and step.number not in (None, known.number):
        raise _late(step)
    wanted = TransactionStatus.COMMITTED if is_commit else TransactionStatus.ABORTED
    if is_newest and (known.is_open or (bumps and not is_commit)):
        return _ending(image, known, is_commit=is_commit, bumps=bumps, random_start=random_start)
    if known.status is wanted and is_again == bumps:
        return known
    raise InvalidTxnStateError(
        f"transactional id {step.transactional_id!r}: its transaction is {known.status}, it cannot "
        f"become {wanted}"
    )


def to_abort(image: Image, transactional_id: str, number: int | None = None) -> Ending | None:
    """Return the end that an administrator decides on: an abort that fences the producer.

    None if no transaction is open, or with `number` not the one of this number.
    """
    found = _to_abort_open(image, transactional_id)
    if found is None or number not in (None, found.before.number):
        return None
    return _fencing(found)


def _fencing(ending: Ending) -> Ending:
    return ending._replace(after=ending.after._replace(last_producer_id=NO_ID, last_epoch=NO_ID))


def to_time_out(image: Image, transactional_id: str, number: int) -> Ending | None:
    """Return the end of a transaction that takes too long; None if it is not open (any more).

    It is the abort that its producer would ask for by KIP-890. So if the producer aborts it later,
    it gets the new epoch and goes on, as at a broker.
    """
    found = _to_abort_open(image, transactional_id)
    return found if found is not None and found.before.number == number else None


def to_abort_before_init(image: Image, transactional_id: str, expected: Producer) -> Ending | None:
    """Return the abort of the transaction that InitProducerId finds open; None if none is open.

    `expected` goes on with the new epoch, however often it asks for it. Raises ProducerFencedError
    if it is not the newest producer of the id (any more).
    """
    found = _to_abort_open(image, transactional_id)
    if found is not None:
        _check_goes_on(found.before, expected)
    return found


def _to_abort_open(image: Image, transactional_id: str) -> Ending | None:
    """Return the abort that raises the producer's epoch; None if no transaction is open."""
    known = image.transactional_ids.open.get(transactional_id)
    return None if known is None else _aborted(image, known)


def _aborted(image: Image, known: TransactionalId) -> Ending:
    start = FIRST_PRODUCER_ID
    return _ending(image, known, is_commit=False, bumps=True, random_start=start)


def to_abort_in(image: Image, place: TransactionPartition, producer: Producer) -> Ending:
    """Return the end of the transaction that a producer has open in a partition.

    A transaction without a transactional id, as in an imported log, ends in this partition alone.
    Raises InvalidProducerEpochError for an older epoch than that of the transactional id: its
    transaction is over.
    """
    found = image.transactional_ids.of_producer(producer.producer_id)
    if found is not None and found.is_open and place in found.partitions:
        if producer.epoch < found.epoch:
            raise InvalidProducerEpochError(
                f"a marker of epoch {producer.epoch} of producer {producer.producer_id}, which has "
                f"epoch {found.epoch} now"
            )
        return _fencing(_aborted(image, found))
    before = TransactionalId(NOT_AN_ID, *producer, 0, partitions=(place,))
    return Ending(before, before, False, producer.epoch)


def _ending(
    image: Image, known: TransactionalId, *, is_commit: bool, bumps: bool, random_start: int
) -> Ending:
    producer, last = Producer(known.producer_id, known.epoch), NOBODY
    marker_epoch, next_id = known.epoch, None
    if bumps:
        marker_epoch = min(known.epoch + 1, EPOCH_MAX)
        producer, last = Producer(known.producer_id, marker_epoch), producer
        if known.is_exhausted:
            fresh = fresh_producer_id(image, random_start)
            producer, next_id = Producer(fresh, 0), fresh + 1
    after = known._replace(
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        status=TransactionStatus.COMMITTED if is_commit else TransactionStatus.ABORTED,
        last_producer_id=last.producer_id,
        last_epoch=last.epoch,
        partitions=(),
        groups=(),
        offsets=(),
    )
    return Ending(known, after, is_commit, marker_epoch, next_id)
