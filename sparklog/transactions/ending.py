"""The ends of transactions: one edit with the markers of all their partitions, and their offsets.

    written     in a shared segment: for each partition the markers of all transactions that end
                there, then batches of groups' offsets. Partitions with the same markers share their
                bytes (a batch's checksum does not cover its base offset and leader epoch)
    committed   each partition gets a row that names its bytes; rows with records of an aborted
                transaction get its range of offsets

The bytes follow from the image and the ends. If the image of the commit needs other bytes, they are
written again: after the first append to a partition, a claim of a partition of __consumer_offsets,
or an end that is refused. `end_group` commits all ends that arrive together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from sparklog.config import TopicConfig
from sparklog.coordinator.batches import batch_of, spread
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommittedOffset
from sparklog.group_commit.companions import Places
from sparklog.log_reader.isolation import AbortedSpan, hiding
from sparklog.metadata.plans.transactions import NOT_AN_ID, Ending
from sparklog.metadata.state.edit import Done, Edit, OpenTransaction, TopicEdit
from sparklog.metadata.state.image import Image, PartitionLog, TopicImage
from sparklog.metadata.state.producers import ProducerState
from sparklog.metadata.state.transactions import PendingOffset
from sparklog.model import SegmentEntry, SegmentKey, TopicPartition
from sparklog.record.markers import ABORT, COMMIT, encode_marker
from sparklog.transactions.pieces import Piece, in_a_row, row_of

END: Final = "END TRANSACTION"

Decision = Callable[[Image], Ending | None]
"""Returns the end to make on an image; None if there is no transaction to end (any more)."""


class StaleEndError(Exception):
    """The image of the commit needs bytes that were not written: the ends must be written again."""


class _Marker(NamedTuple):
    """The end of a transaction in a partition; `first_offset` is its first offset there.

    `epoch` is the producer epoch of the marker.
    """

    producer_id: int
    epoch: int
    first_offset: int
    is_commit: bool


class _Batch(NamedTuple):
    """One batch to append: a marker, or a group's offsets."""

    data: bytes
    records: int
    marker: _Marker | None


@dataclass(slots=True)
class _Appended:
    """The batches that ends append to a partition, in order.

    `opened` are the transactions that stay open: producer id to first offset.
    """

    log: PartitionLog
    opened: dict[int, int]
    batches: list[_Batch] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        """The bytes to append."""
        return in_a_row([one.data for one in self.batches], [one.records for one in self.batches])

    @property
    def markers(self) -> list[_Marker]:
        """The markers among the batches."""
        return [one.marker for one in self.batches if one.marker is not None]

    def aborts(self) -> Iterator[tuple[_Marker, int]]:
        """Yield the markers of aborted transactions, each with its offset."""
        offset = self.log.log_end_offset
        for one in self.batches:
            if one.marker is not None and not one.marker.is_commit:
                yield one.marker, offset
            offset += one.records


Appends = dict[str, dict[int, _Appended]]
"""What ends append, by topic id and partition."""


def topics_of(image: Image, ending: Ending) -> Iterator[str]:
    """Yield the existing topics that an end writes to."""
    for topic_id in dict.fromkeys(one.topic_id for one in ending.before.partitions):
        if image.existing(topic_id) is not None:
            yield topic_id
    offsets = image.names.get(OFFSETS_TOPIC)
    if ending.is_commit and ending.before.offsets and offsets is not None:
        yield offsets.topic_id


def pieces_of(appends: Appends) -> set[bytes]:
    """Return the bytes that ends append to partitions; equal bytes only once."""
    return {one.data for of_topic in appends.values() for one in of_topic.values()}


def appends_of(image: Image, endings: Sequence[Ending], now_ms: int) -> Appends:
    """Return the batches that ends append.

    These are markers in the partitions where a transaction has records, and groups' offsets.
    """
    found: Appends = {}
    for ending in endings:
        before, epoch = ending.before, ending.marker_epoch
        kind = COMMIT if ending.is_commit else ABORT
        for topic_id, number in before.partitions:
            topic = image.existing(topic_id)
            if topic is None:
                continue
            place = _place(found, topic, topic_id, number)
            first = place.opened.pop(before.producer_id, None)
            if first is not None:
                data = _marker(kind, before.producer_id, epoch, now_ms, place.log.leader_epoch)
                marker = _Marker(before.producer_id, epoch, first, ending.is_commit)
                place.batches.append(_Batch(data, 1, marker))
        offsets = image.names.get(OFFSETS_TOPIC)
        if ending.is_commit and offsets is not None:
            _append_offsets(found, image.topics[offsets.topic_id], before.offsets, now_ms)
    return {
        topic_id: with_batches
        for topic_id, of_topic in found.items()
        if (with_batches := {number: one for number, one in of_topic.items() if one.batches})
    }


def _place(found: Appends, topic: TopicImage, topic_id: str, number: int) -> _Appended:
    of_topic = found.setdefault(topic_id, {})
    if number not in of_topic:
        log = topic.partition(number)
        of_topic[number] = _Appended(log, dict(log.transactions))
    return of_topic[number]


@lru_cache(1024)
def _marker(kind: int, producer_id: int, epoch: int, now_ms: int, leader_epoch: int) -> bytes:
    """Return the bytes of a marker at offset 0. Cached: many partitions need it, each twice."""
    return encode_marker(kind, producer_id, epoch, now_ms, 0, leader_epoch)


def _append_offsets(
    found: Appends, topic: TopicImage, offsets: Sequence[PendingOffset], now_ms: int
) -> None:
    """Append each group's offsets to __consumer_offsets: a batch, or several if it is too large.

    A transaction may have many requests with offsets, each as large as a batch.
    """
    topic_id, count = topic.description.topic_id, topic.description.num_partitions
    bytes_max = TopicConfig.parse(topic.description.configs).max_message_bytes
    of_group: dict[str, list[PendingOffset]] = {}
    for one in offsets:
        of_group.setdefault(one.group_id, []).append(one)
    for group_id, some in of_group.items():
        place = _place(found, topic, topic_id, partition_of(group_id, count))
        records = [
            offset_record(
                one.group_id,
                TopicPartition(one.topic, one.partition),
                CommittedOffset(one.offset, one.leader_epoch, one.metadata, now_ms),
            )
            for one in some
        ]
        for part in spread(records, bytes_max):
            data = batch_of(part, now_ms, leader_epoch=place.log.leader_epoch)
            place.batches.append(_Batch(data, len(part), None))


def edit_of(
    image: Image, endings: Sequence[Ending], appends: Appends, places: Places, now_ms: int
) -> Edit | Done:
    """Return the edit of ends; `appends` are those of this image.

    Raises StaleEndError if some of their bytes were not written.
    """
    edits = {
        topic_id: _topic_edit(of_topic, places, now_ms) for topic_id, of_topic in appends.items()
    }
    ids = {
        ending.after.transactional_id: ending.after
        for ending in endings
        if ending.after.transactional_id != NOT_AN_ID
    }
    if not edits and not ids:
        return Done()
    names = [image.topics[topic_id].description.name for topic_id in edits]
    return Edit(
        operation=END,
        parameters={
            "transactionalIds": ", ".join(ids),
            "results": ", ".join(f"{name}: {one.status}" for name, one in ids.items()),
            "topics": ", ".join(names),
        },
        topics=edits,
        transactional_ids=ids,
        next_producer_id=max((one.next_id or 0 for one in endings), default=0) or None,
    )


def _topic_edit(appended: dict[int, _Appended], places: Places, now_ms: int) -> TopicEdit:
    segments: list[SegmentEntry] = []
    replaced: dict[SegmentKey, SegmentEntry] = {}
    transactions: dict[int, tuple[OpenTransaction, ...]] = {}
    producers: dict[int, tuple[ProducerState, ...]] = {}
    epochs: dict[int, int] = {}
    for number, one in appended.items():
        log, markers, data = one.log, one.markers, one.data
        if data not in places:
            raise StaleEndError
        records = tuple([batch.records for batch in one.batches])
        piece = Piece(number, data, records, tuple([end.producer_id for end in markers]))
        row = row_of(piece, places[data], log.log_end_offset, log.leader_epoch, now_ms)
        for marker, offset in one.aborts():
            span = AbortedSpan(marker.producer_id, marker.first_offset, offset)
            row = hiding(row, span)
            for entry in log.entries(max(marker.first_offset, log.log_start_offset)):
                replaced[entry.key] = hiding(replaced.get(entry.key, entry), span)
        segments.append(row)
        if not log.epochs or log.epochs[-1].epoch < log.leader_epoch:
            epochs[number] = log.leader_epoch  # it begins with these bytes, as after an import
        if markers:
            transactions[number] = tuple([OpenTransaction(*still) for still in one.opened.items()])
            producers[number] = tuple([_state(log, marker) for marker in markers])
    return TopicEdit(
        segments=tuple(segments),
        replace=tuple(replaced.values()),
        transactions=transactions,
        producers=producers,
        leader_epochs=epochs,
    )


def _state(log: PartitionLog, marker: _Marker) -> ProducerState:
    """Return a producer's state after its marker; with a new epoch it has no batches yet."""
    known = log.producers.get(marker.producer_id)
    if known is not None and known.epoch >= marker.epoch:
        return known
    return ProducerState(marker.producer_id, marker.epoch)
