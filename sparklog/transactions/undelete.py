"""Bring back a deleted topic, in one entry, and abort the transactions that have left it.

A deletion takes the topic out of the open transactions, so their ends write no markers there
(`metadata.plans.topics`). Their records are still in the log. The entry that brings back the topic
aborts them, with markers, as the topic cannot tell any more how the transactions ended. One that is
still open is aborted in all its partitions, and its producer is fenced: else its commit would leave
out the records of this topic. A later transaction of the producer is left alone. A transaction of
an imported log never had an id here: it stays open, as it was before the deletion.
"""

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import replace

from sparklog.errors import CommitConflictError, LateWriterError, SparklogError
from sparklog.group_commit.append_writer import ROUNDS_MAX, AppendWriter
from sparklog.group_commit.companions import Places
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import Committed
from sparklog.metadata.plans.topics import restored
from sparklog.metadata.plans.transactions import NOT_AN_ID, Ending, to_abort
from sparklog.metadata.state.cluster import FIRST_PRODUCER_ID
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.metadata.state.transactions import TransactionalId, TransactionPartition
from sparklog.model import TopicDescription
from sparklog.transactions.ending import StaleEndError, appends_of, edit_of, pieces_of, topics_of


def undelete(catalog: Catalog, name: str, topic_id: str | None = None) -> TopicDescription:
    """Bring back a deleted topic, durably; return it.

    Raises as `metadata.plans.topics.restored`, TopicClosedError once vacuum has begun to erase the
    topic, and as `MetadataLog.commit`.
    """
    asked = _Undelete(name, topic_id)
    AppendWriter(catalog).write((), asked)
    return asked.answer()


class _Undelete:
    """The request, as a companion of no batches (`Companions`)."""

    def __init__(self, name: str, topic_id: str | None) -> None:
        self._name = name
        self._wanted_id = topic_id
        self._now_ms = 0
        self._topics: frozenset[str] = frozenset()
        self._outcome: TopicDescription | BaseException | None = None

    def answer(self) -> TopicDescription:
        """Return the topic, or raise the error."""
        assert self._outcome is not None  # noqa: S101 - the writer has settled it
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    @property
    def are_settled(self) -> bool:
        return self._outcome is not None

    def begin(self, image: Image) -> Collection[str]:
        opened = image.transactional_ids.open.values()
        others = {topic_id for one in opened for topic_id, _ in one.partitions}
        self._topics = frozenset(
            {*self._restored(image).topics, *(one for one in others if image.topic(one))}
        )
        return self._topics

    def lose(self, errors: Mapping[str, SparklogError]) -> None:
        self.fail(next(iter(errors.values())))

    def pieces(self, image: Image, now_ms: int) -> Collection[bytes]:
        self._now_ms = now_ms
        after, endings = _with_orphans(image, self._restored(image))
        return sorted(pieces_of(appends_of(after, endings, now_ms)))

    def plan(self, image: Image, places: Places) -> Edit | Done:
        back = self._restored(image)
        after, endings = _with_orphans(image, back)
        if not self._topics.issuperset(one for end in endings for one in topics_of(after, end)):
            raise StaleEndError
        appends = appends_of(after, endings, self._now_ms)
        ended = edit_of(after, endings, appends, places, self._now_ms)
        if isinstance(ended, Done):
            return back
        topics = dict(ended.topics)
        for topic_id, edit in back.topics.items():
            topics[topic_id] = replace(topics[topic_id], description=edit.description)
        return replace(
            back,
            topics=topics,
            transactional_ids=ended.transactional_ids,
            next_producer_id=ended.next_producer_id,
        )

    def _restored(self, image: Image) -> Edit:
        return restored(image, self._name, self._wanted_id)

    def land(self, outcome: Committed | BaseException) -> None:
        if isinstance(outcome, StaleEndError | LateWriterError):
            return
        if isinstance(outcome, BaseException):
            self.fail(outcome)
        else:
            self._outcome = outcome.image.names[self._name]

    def fail(self, error: BaseException) -> None:
        self._outcome = self._outcome or copy(error)  # without its frames: they hold this request

    def give_up(self) -> None:
        self.fail(
            CommitConflictError(
                f"topic {self._name!r}: its markers could not be written {ROUNDS_MAX} times in a "
                f"row, because of other commits"
            )
        )


def _with_orphans(image: Image, back: Edit) -> tuple[Image, list[Ending]]:
    """Return the image with the topic back, and the aborts of the transactions that left it."""
    after = image.apply([back], image.stamp)
    ids, found = image.transactional_ids, list[Ending]()
    left: dict[str, list[TransactionPartition]] = {}
    for topic_id in back.topics:
        deleted_ms = image.topics[topic_id].description.deleted_ms or 0
        for log in after.topics[topic_id].partitions.values():
            place = TransactionPartition(topic_id, log.partition)
            for producer_id, _ in log.transactions:
                known = ids.of_producer(producer_id)
                if known is not None and known.is_open and known.started_ms <= deleted_ms:
                    left.setdefault(known.transactional_id, []).append(place)
                elif known is not None or _was_from_here(image, producer_id):
                    found.append(_orphan(log, place, producer_id))
    for name, places in left.items():
        ending = to_abort(image, name)
        assert ending is not None  # noqa: S101 - it is open
        image = image.with_ids({name: ending.after}, ending.next_id)
        partitions = tuple(dict.fromkeys((*ending.before.partitions, *places)))
        found.append(ending._replace(before=ending.before._replace(partitions=partitions)))
    return after, found


def _orphan(log: PartitionLog, place: TransactionPartition, producer_id: int) -> Ending:
    """Return the abort, in one partition, of a transaction that is over elsewhere."""
    known = log.producers.get(producer_id)
    epoch = known.epoch if known is not None else 0
    one = TransactionalId(NOT_AN_ID, producer_id, epoch, 0, partitions=(place,))
    return Ending(one, one, is_commit=False, marker_epoch=epoch)


def _was_from_here(image: Image, producer_id: int) -> bool:
    """Whether this log dir has given out a producer id."""
    return FIRST_PRODUCER_ID <= producer_id < image.next_producer_id
