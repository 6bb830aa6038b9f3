"""The end of a transaction: one entry with the markers of all its partitions, and its offsets.

    written     one shared segment: a marker, which all partitions of a leader epoch share (base
                offset and epoch lie outside its checksum), and a batch of offsets for each group
    committed   a new row of each partition names the marker; rows of an aborted transaction get
                its range of offsets; the offsets of groups are appended to __consumer_offsets

The bytes follow from the image. If the commit's image asks for other bytes (after the first append
to a partition, or a claim of an offsets partition), they are written again. `end_group` writes and
commits all ends that arrive together.
"""

from collections.abc import Callable, Iterator
from typing import Final

from sparklog.coordinator.offsets import offset_record
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommittedOffset
from sparklog.metadata.edit import Done, Edit, TopicEdit
from sparklog.metadata.image import Image, PartitionLog, TopicImage
from sparklog.metadata.producers import ProducerState
from sparklog.metadata.transaction_plans import NOT_AN_ID, Ending
from sparklog.metadata.transactions import PendingOffset
from sparklog.model import AbortedRange, SegmentEntry, TopicPartition
from sparklog.record.markers import ABORT, COMMIT, encode_marker
from sparklog.transactions.pieces import Piece, Slot, offsets_batch, row_of

END: Final = "END TRANSACTION"

Decision = Callable[[Image], Ending | None]
"""Returns the end to make on an image; None if there is no transaction to end, or no longer."""


class StaleEndError(Exception):
    """The commit's image asks for bytes that were not written: the end must be written again."""


def topics_of(image: Image, ending: Ending) -> Iterator[str]:
    """Yield the existing topics that an end writes to."""
    for topic_id in dict.fromkeys(one.topic_id for one in ending.before.partitions):
        topic = image.topic(topic_id)
        if topic is not None and topic.closed_ms is None:
            yield topic_id
    offsets = image.names.get(OFFSETS_TOPIC)
    if ending.is_commit and ending.before.offsets and offsets is not None:
        yield offsets.topic_id


def _live(image: Image, topic_id: str) -> TopicImage | None:
    topic = image.topic(topic_id)
    return None if topic is None or topic.closed_ms is not None else topic


def pieces_of(image: Image, ending: Ending, now_ms: int) -> Iterator[Piece]:
    """Yield the pieces of an end: a marker in each partition with records, then groups' offsets."""
    before = ending.before
    kind = COMMIT if ending.is_commit else ABORT
    for topic_id, number in before.partitions:
        topic = _live(image, topic_id)
        if topic is None:
            continue
        log = topic.partition(number)
        if before.producer_id in dict(log.transactions):
            producer = (before.producer_id, ending.marker_epoch)
            data = encode_marker(kind, *producer, now_ms, 0, log.leader_epoch)
            yield Piece(topic_id, number, data, 1, True)
    offsets = image.names.get(OFFSETS_TOPIC)
    if ending.is_commit and offsets is not None:
        opened = image.topics[offsets.topic_id]
        of_group: dict[str, list[PendingOffset]] = {}
        for one in before.offsets:
            of_group.setdefault(one.group_id, []).append(one)
        for group_id, some in of_group.items():
            number = partition_of(group_id, offsets.num_partitions)
            data = _offsets(some, now_ms, opened.partition(number).leader_epoch)
            yield Piece(offsets.topic_id, number, data, len(some), False)


def _offsets(offsets: list[PendingOffset], now_ms: int, leader_epoch: int) -> bytes:
    """Return the batch of a group's offsets, encoded."""
    records = [
        offset_record(
            one.group_id,
            TopicPartition(one.topic, one.partition),
            CommittedOffset(one.offset, one.leader_epoch, one.metadata, now_ms),
        )
        for one in offsets
    ]
    return offsets_batch(records, now_ms, leader_epoch)


def edit_of(image: Image, ending: Ending, places: dict[bytes, Slot], now_ms: int) -> Edit | Done:
    """Return the edit of an end. Raises StaleEndError if some of its bytes were not written."""
    topics: dict[str, list[Piece]] = {}
    for piece in pieces_of(image, ending, now_ms):
        if piece.data not in places:
            raise StaleEndError
        topics.setdefault(piece.topic_id, []).append(piece)
    edits = {
        topic_id: _topic_edit(image.topics[topic_id], ending, pieces, places, now_ms)
        for topic_id, pieces in topics.items()
    }
    after = ending.after
    if not edits and after.transactional_id == NOT_AN_ID:
        return Done()
    names = [image.topics[topic_id].description.name for topic_id in edits]
    return Edit(
        operation=END,
        parameters={
            "transactionalId": after.transactional_id,
            "result": str(after.status),
            "topics": ", ".join(names),
        },
        topics=edits,
        transactional_ids={after.transactional_id: after}
        if after.transactional_id != NOT_AN_ID
        else {},
        next_producer_id=ending.next_id,
    )


def _topic_edit(
    topic: TopicImage,
    ending: Ending,
    pieces: list[Piece],
    places: dict[bytes, Slot],
    now_ms: int,
) -> TopicEdit:
    producer_id = ending.before.producer_id
    segments: list[SegmentEntry] = []
    replaced: list[SegmentEntry] = []
    ends: dict[int, int] = {}
    for piece in pieces:
        log = topic.partition(piece.partition)
        base = ends.get(piece.partition, log.log_end_offset)
        ends[piece.partition] = base + piece.records
        row = row_of(piece, places[piece.data], base, log.leader_epoch, producer_id, now_ms)
        if piece.is_marker and not ending.is_commit:
            first = dict(log.transactions)[producer_id]
            row = _with_span(row, producer_id, first, base)
            replaced += [
                _with_span(one, producer_id, first, base)
                for one in log.entries(max(first, log.log_start_offset))
            ]
        segments.append(row)
    ended = [one.partition for one in pieces if one.is_marker]
    return TopicEdit(
        segments=segments,
        replace=replaced,
        transactions={
            number: tuple(
                one
                for one in topic.partition(number).transactions
                if one.producer_id != producer_id
            )
            for number in ended
        },
        producers={
            number: (_state(topic.partition(number), producer_id, ending.marker_epoch),)
            for number in ended
        },
    )


def _state(log: PartitionLog, producer_id: int, epoch: int) -> ProducerState:
    """Return a producer's state after its marker: under a new epoch it has no batches yet."""
    known = log.producers.get(producer_id)
    if known is not None and known.epoch == epoch:
        return known
    return ProducerState(producer_id, epoch)


def _with_span(entry: SegmentEntry, producer_id: int, first: int, last: int) -> SegmentEntry:
    """Return a row with an aborted transaction added, from its first offset to its marker's."""
    base = entry.base_offset
    spans = {*entry.aborted, AbortedRange(producer_id, first - base, last - base)}
    return entry._replace(aborted=tuple(sorted(spans)))
