"""The batches that one group appends to a partition: verdicts, offsets, and rows."""

import struct
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import (
    InvalidTxnStateError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    SparklogError,
    UnexpectedAppendOffsetError,
)
from sparklog.group_commit.admission import ADDS_FROM, Admission
from sparklog.group_commit.append_slots import Appended, Checked
from sparklog.log.names import OFFSET_MAX
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.partition_log import PartitionLog
from sparklog.metadata.state.producers import (
    SEQUENCES,
    Duplicate,
    ProducerState,
    SequencedBatch,
    sequenced,
)
from sparklog.metadata.state.transactions import TransactionalIds, TransactionPartition
from sparklog.model import NO_TIMESTAMP, SegmentEntry
from sparklog.record import layout
from sparklog.record.checksum import crc32c_of

if TYPE_CHECKING:
    from sparklog.record.client_batch import ClientBatch
    from sparklog.record.encode import EncodedStream

_HEAD: Final = struct.Struct(">qii")
"""The first bytes of a batch: base offset, length, leader epoch."""

Verdict = int | Duplicate | SparklogError
"""For a batch: the offset it gets, the place of its first copy, or the error that refuses it."""


class Decided(NamedTuple):
    """The verdicts on batches, in the order of the batches, and the states after them.

    `producers` are the states that change. `transactions` are all open transactions of the
    partition; None if the batches begin none. `ids` are the transactional ids of the image for
    which the verdicts hold.
    """

    verdicts: list[Verdict]
    producers: tuple[ProducerState, ...]
    transactions: tuple[OpenTransaction, ...] | None
    ids: TransactionalIds


def decided(
    log: PartitionLog, batches: Sequence[Checked], topic_id: str, admission: Admission
) -> Decided:
    """Return the verdicts on batches; notes those that are appended in the plan's `admission`."""
    verdicts: list[Verdict] = []
    states: dict[int, ProducerState] = {}
    opened = dict(log.transactions)
    end = log.log_end_offset
    place = TransactionPartition(topic_id, log.partition)
    for one in batches:
        slot, batch = one
        verdict: Verdict = end
        try:
            _check_end(log, one, end)
            if batch.is_transactional:
                admission.check(slot, batch, place)
            elif batch.producer_id in opened:
                raise _not_transactional(log, batch)
            after: ProducerState | Duplicate | None = None
            if batch.producer_id >= 0:
                known = states.get(batch.producer_id) or log.producers.get(batch.producer_id)
                after = _after(known, one, end, place, admission)
            if isinstance(after, Duplicate):
                verdict = after
            else:
                _check_room(log, batch, end, opened)
                if after is not None:
                    states[batch.producer_id] = after
        except SparklogError as error:
            verdict = copy(error)  # without its frames, as in `Slot.refuse`
        if isinstance(verdict, int):
            if batch.is_transactional:
                admission.take(batch.producer_id, place)
                opened.setdefault(batch.producer_id, end)
            end += batch.record_count
        verdicts.append(verdict)
    return Decided(verdicts, tuple(states.values()), _begun(log, opened), admission.ids)


def _after(
    known: ProducerState | None,
    checked: Checked,
    end: int,
    place: TransactionPartition,
    admission: Admission,
) -> ProducerState | Duplicate:
    """Return what `sequenced` does for a batch that would get the offset `end`.

    A transaction of KIP-890 has an epoch of its own. So its first batch in a partition has sequence
    0, also if the partition does not know the producer (ProducerAppendInfo.checkSequence).
    """
    slot, batch = checked
    if known is None:
        admission.failed.check(place, batch)
        begins = batch.is_transactional and slot.produce_version >= ADDS_FROM
        if begins and batch.base_sequence:
            raise OutOfOrderSequenceError(
                f"producer {batch.producer_id}, epoch {batch.producer_epoch}: a batch that begins "
                f"with sequence {batch.base_sequence} where 0 is next"
            )
    return sequenced(known, _sequences_of(batch, end))


def _begun(log: PartitionLog, opened: Mapping[int, int]) -> tuple[OpenTransaction, ...] | None:
    """Return all open transactions, by producer and first offset; None if none of them is new."""
    if len(opened) == len(log.transactions):
        return None
    return tuple(OpenTransaction(*one) for one in sorted(opened.items()))


def _not_transactional(log: PartitionLog, batch: "ClientBatch") -> InvalidTxnStateError:
    """Return the error of ProducerAppendInfo.appendDataBatch."""
    return InvalidTxnStateError(
        f"{log.name}: a batch of producer {batch.producer_id} outside of its open transaction"
    )


def _check_end(log: PartitionLog, checked: Checked, end: int) -> None:
    """Raise UnexpectedAppendOffsetError for a batch that was planned at another log end offset.

    `end` is the log end offset before the batch.
    """
    planned = checked.slot.append.end_offset
    if planned not in (None, end):
        raise UnexpectedAppendOffsetError(
            f"{log.name}: planned at the log end offset {planned}, which is {end} now"
        )


def _check_room(
    log: PartitionLog, batch: "ClientBatch", end: int, opened: Mapping[int, int]
) -> None:
    """Raise OffsetOutOfRangeError unless the batch fits, and the markers of open transactions.

    `end` is the log end offset before the batch; `opened` has the producers of transactions that
    are open then. Without an offset for its marker no transaction could end. Other writers keep
    none for markers, also if their records have offsets of their own.
    """
    markers = len(opened) + (batch.is_transactional and batch.producer_id not in opened)
    if end + batch.record_count + markers > OFFSET_MAX:
        raise OffsetOutOfRangeError(
            f"{log.name}: {batch.record_count} records at the log end offset {end}: the partition "
            f"has {OFFSET_MAX - end} offsets left, markers of open transactions need {markers}"
        )


def _sequences_of(batch: "ClientBatch", offset: int) -> SequencedBatch:
    count = batch.record_count
    last_sequence = (batch.base_sequence + count - 1) % SEQUENCES
    last_offset = offset + count - 1
    return SequencedBatch(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        last_sequence,
        last_offset,
        batch.max_timestamp,
    )


class PartitionAppends:
    """The batches of one partition.

    A batch that is refused on the image before the write is not written.
    """

    def __init__(
        self,
        log: PartitionLog,
        batches: Sequence[Checked],
        leader_epoch: int,
        topic_id: str,
        admission: Admission,
    ) -> None:
        """`log` is the partition as the group sees it before it writes."""
        self.partition = log.partition
        self.batches = batches
        self._topic_id = topic_id
        self._log = log
        self._is_transactional = False
        self.decided = decided(log, batches, topic_id, admission)
        """The verdicts on the newest image, and the states after them."""
        self.rows: Sequence[SegmentEntry] = ()
        """Rows of the batches that the newest plan appends, with their offsets in the file."""
        self.is_stale = False
        """True if the newest plan needs batches that are not written; they are written then."""
        self._is_written: list[bool] = []
        self.written: list[ClientBatch] = []
        """The batches that are written, one after another."""
        self._offsets, self._positions = [log.log_end_offset], [0]
        for (_, batch), verdict in zip(batches, self.decided.verdicts, strict=True):
            is_written = isinstance(verdict, int)
            self._is_written.append(is_written)
            self._is_transactional |= batch.is_transactional
            if is_written:
                self.written.append(batch)
                self._offsets.append(self._offsets[-1] + batch.record_count)
                self._positions.append(self._positions[-1] + len(batch.data))
        self.leader_epoch = leader_epoch
        self._slice = "", 0, 0
        self._segments: Sequence[SegmentEntry] = ()
        self._known_rows: dict[tuple[int, int], SegmentEntry] = {}

    @property
    def size(self) -> int:
        """How many bytes the written batches have."""
        return self._positions[-1]

    @property
    def appended(self) -> "list[ClientBatch]":
        """The batches that the newest plan appends."""
        return [
            batch
            for (_, batch), verdict in zip(self.batches, self.decided.verdicts, strict=True)
            if isinstance(verdict, int) and not self.is_stale
        ]

    # -------------------------------------------------------------------------------------- write

    @cached_property
    def pieces(self) -> list[bytes | NDArray[np.uint8]]:
        """The bytes to write: of each batch a head with its offset in the file, then the rest."""
        found: list[bytes | NDArray[np.uint8]] = []
        for batch, offset in zip(self.written, self._offsets, strict=False):
            length = len(batch.data) - layout.LOG_OVERHEAD
            found.append(_HEAD.pack(offset, length, self.leader_epoch))
            found.append(batch.data[_HEAD.size :])
        return found

    def stream(self) -> "EncodedStream":
        """Return the batches to write, in the form that a TopicWriter takes."""
        from sparklog.record.encode import EncodedStream
        from sparklog.record.scan import scan_batches

        data = np.frombuffer(b"".join(cast("list[bytes]", self.pieces)), np.uint8)
        least = np.array([batch.min_timestamp for batch in self.written], np.int64)
        count = self._offsets[-1] - self._offsets[0]
        return EncodedStream(self.partition, data, scan_batches(data).batches, count, least)

    def lie_at(self, path: str, position: int, now_ms: int) -> None:
        """Note that the written batches are in a shared segment, from this position on."""
        self._slice = path, position, now_ms

    def lie_in(self, segments: Sequence[SegmentEntry]) -> None:
        """Note that the written batches are in segments of the partition's own."""
        self._segments = segments

    # --------------------------------------------------------------------------------------- plan

    def place(self, log: PartitionLog, admission: Admission) -> None:
        """Decide on the batches again, on the log that the commit follows."""
        # On the same log, and with the same transactional ids, the verdicts stand.
        is_same = log is self._log
        if self._is_transactional:
            is_same = is_same and admission.ids is self.decided.ids
        if not is_same:
            self._log = log
            self.decided = decided(log, self.batches, self._topic_id, admission)
        is_taken = [isinstance(verdict, int) for verdict in self.decided.verdicts]
        if is_same and self._is_transactional:
            self._take(is_taken, admission)
        if is_taken == self._is_written:
            self.is_stale, self.rows = False, self._rows([True] * len(self.written))
            return
        pairs = list(zip(is_taken, self._is_written, strict=True))
        of_written = [taken for taken, is_in in pairs if is_in]
        self.is_stale = any(taken and not is_in for taken, is_in in pairs) or (
            bool(self._segments) and any(of_written) and not all(of_written)
        )
        self.rows = () if self.is_stale else self._rows(of_written)

    def _take(self, is_taken: Sequence[bool], admission: Admission) -> None:
        """Note the transactional batches that are appended in a plan's admission."""
        place = TransactionPartition(self._topic_id, self.partition)
        for is_in, (_, batch) in zip(is_taken, self.batches, strict=True):
            if is_in and batch.is_transactional:
                admission.take(batch.producer_id, place)

    def _rows(self, is_taken: Sequence[bool]) -> Sequence[SegmentEntry]:
        """Return the rows of the written batches that are to be appended."""
        if all(is_taken):
            return self._segments or ([self._row(0, len(is_taken))] if is_taken else ())
        if self._segments:
            return ()
        rows: list[SegmentEntry] = []
        first = 0
        for taken, run in groupby(is_taken):
            last = first + len(list(run))
            if taken:
                rows.append(self._row(first, last))
            first = last
        return rows

    def _row(self, first: int, last: int) -> SegmentEntry:
        """Return the row of the written batches [first, last): a slice of a shared segment."""
        if (first, last) not in self._known_rows:
            self._known_rows[first, last] = self._new_row(first, last)
        return self._known_rows[first, last]

    def _new_row(self, first: int, last: int) -> SegmentEntry:
        path, position, now_ms = self._slice
        batches = self.written[first:last]
        base, start, end = self._offsets[first], self._positions[first], self._positions[last]
        times = [batch.max_timestamp for batch in batches]
        newest = max(times)
        # Where no record has a time, the newest is at the base offset (log.indexer).
        has_times = newest != NO_TIMESTAMP
        newest_end = self._offsets[first + times.index(newest) + 1] if has_times else base + 1
        codecs = {batch.codec for batch in batches}
        producers = {batch.producer_id for batch in batches if batch.producer_id >= 0}
        return SegmentEntry(
            partition=self.partition,
            base_offset=base,
            next_offset=self._offsets[last],
            file_base_offset=base,
            log_path=path,
            log_bytes=end - start,
            log_position=position + start,
            log_crc32c=crc32c_of(self.pieces[2 * first : 2 * last]),
            record_count=self._offsets[last] - base,
            batch_count=len(batches),
            min_timestamp=min([batch.min_timestamp for batch in batches]),
            max_timestamp=newest,
            max_timestamp_delta=newest_end - 1 - base,
            codec=codecs.pop() if len(codecs) == 1 else None,
            max_leader_epoch=self.leader_epoch,
            producer_ids=tuple(sorted(producers)),
            transactional=self._is_transactional and any(one.is_transactional for one in batches),
            created_ms=now_ms,
        )

    # ------------------------------------------------------------------------------------- answer

    def settle(self, append_time_ms: int) -> None:
        """Give the batches their outcomes, unless they have to be written again.

        `append_time_ms` is -1 unless the topic has LogAppendTime. A duplicate gets the time of its
        first copy.
        """
        if self.is_stale:
            return
        log_start_offset = self._log.log_start_offset  # an append does not change it
        for (slot, _), verdict in zip(self.batches, self.decided.verdicts, strict=True):
            if isinstance(verdict, SparklogError):
                slot.refuse(verdict)
            elif isinstance(verdict, Duplicate):
                then_ms = NO_TIMESTAMP if append_time_ms == NO_TIMESTAMP else verdict.timestamp_ms
                slot.outcome = Appended(verdict.first_offset, then_ms, log_start_offset)
            else:
                slot.outcome = Appended(verdict, append_time_ms, log_start_offset)

    def fail(self, error: SparklogError) -> None:
        """Give an error to the batches that have no outcome."""
        for slot, _ in self.batches:
            slot.refuse(error)
