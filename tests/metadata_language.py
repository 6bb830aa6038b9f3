"""Edits made up at random, each allowed by its image, and logs for tests of the metadata log."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from sparklog.clock import Clock, ManualClock
from sparklog.errors import StorageError
from sparklog.log.names import uuid7
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.state.cluster import Broker, Endpoint, ScramCredential
from sparklog.metadata.state.edit import (
    ALL_FILES_MS,
    Edit,
    EpochStart,
    Lease,
    OpenTransaction,
    PartitionState,
    Receipt,
    ReceiptKey,
    TopicEdit,
)
from sparklog.metadata.state.image import Image, TopicImage, at_log_end, shared_slices
from sparklog.metadata.state.producers import ProducerBatch, ProducerState
from sparklog.metadata.state.transactions import (
    Added,
    PendingOffset,
    TransactionalId,
    TransactionPartition,
    TransactionStatus,
)
from sparklog.model import AbortedRange, OffsetRange, SegmentEntry, TopicDescription
from sparklog.storage.files import Files
from sparklog.storage.memory import MemoryFiles
from tests.edits import NOW_MS, segment

PARTITIONS = 2

Put = Callable[[str, Any], bool]


def topic_id(number: int) -> str:
    """The id of topic number `number`."""
    return f"{number:022}"


def description(number: int = 0, **fields: Any) -> TopicDescription:
    """A topic of PARTITIONS partitions."""
    made = TopicDescription(f"t{number}", topic_id(number), PARTITIONS, {}, NOW_MS)
    return replace(made, **fields)


def creating(number: int = 0, **fields: Any) -> Edit:
    """The edit that makes a topic."""
    made = TopicEdit(description=description(number, **fields))
    return Edit(operation="CREATE TOPICS", topics={topic_id(number): made})


def of_topic(edit: TopicEdit, number: int = 0, operation: str = "TEST") -> Edit:
    """An edit of one topic alone."""
    return Edit(operation=operation, topics={topic_id(number): edit})


def producing(*entries: SegmentEntry, number: int = 0, **fields: Any) -> Callable[[Image], Edit]:
    """A plan that puts segments at the log end of a topic."""

    def plan(image: Image) -> Edit:
        topic = image.topic(topic_id(number))
        assert topic is not None
        edit = TopicEdit(segments=at_log_end(topic, entries), **fields)
        return of_topic(edit, number, "PRODUCE")

    return plan


def new_log(files: Files | None = None, clock: Clock | None = None, topics: int = 1) -> MetadataLog:
    """The log of a new log dir with some topics."""
    log = MetadataLog.create(files or MemoryFiles(), clock or ManualClock())
    for number in range(topics):
        log.commit(lambda _, number=number: creating(number))  # type: ignore[misc] # mypy cannot infer a lambda with a default
    return log


def whole(log: MetadataLog) -> Image:
    """The newest image with all topics open."""
    return log.image(log.image().topics)


TOPIC = [topic_id(0)]
"""The first topic alone."""


def ends(image: Image) -> int:
    """The log end offset of the first topic's partition 0."""
    topic = image.topic(topic_id(0))
    assert topic is not None
    return topic.partition(0).log_end_offset


def append(log: MetadataLog, **options: Any) -> int:
    """Append ten records; return the log end offset."""
    return ends(log.commit(producing(segment()), TOPIC, **options).image)


class ToldOtherwise(MemoryFiles):
    """A store whose puts of entries give the listed answers, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Callable[[Put, str, Any], bool]] = []

    def put_new(self, path: str, data: Any, **options: Any) -> bool:
        put: Put = partial(super().put_new, **options)
        if self.answers and path.startswith(ENTRIES):
            return self.answers.pop(0)(put, path, data)
        return put(path, data)


def error_after_success(put: Put, path: str, data: Any) -> bool:
    put(path, data)
    raise StorageError("the answer was lost")


class Author:
    """Makes up edits that an image allows, the image's topics all open."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._made = 0
        self.now_ms = NOW_MS

    def edit(self, image: Image) -> Edit:
        """Return an edit of the log dir, or of one or two topics."""
        self.now_ms += self._random.randrange(50)
        alive = [topic for topic in image.topics.values() if topic.deleted_ms is None]
        if not alive or self._random.random() < 0.15:
            return self._of_log_dir(image)
        chosen = self._random.sample(alive, min(len(alive), self._random.choice([1, 1, 2])))
        topics = {one.description.topic_id: self._of_topic(one) for one in chosen}
        return Edit(operation="PRODUCE", parameters={"who": "author"}, topics=topics)

    def _of_log_dir(self, image: Image) -> Edit:
        kinds = ["create", "lease", "delete", "gone", "shared", "horizon", "cluster", "cluster"]
        kind = self._random.choice([*kinds, "restore"])
        if kind == "restore":
            return Edit(operation="RESTORE", ended_log=f"log {self._random.randrange(9)}")
        if kind == "cluster":
            return self._of_cluster(image)
        if kind == "lease":
            lease = Lease("job", f"owner {self._made}", self.now_ms)
            return Edit(operation="LEASE", leases={"job": self._random.choice([lease, None])})
        if kind == "horizon":
            return Edit(operation="VACUUM", horizon_ms=self._random.randrange(NOW_MS))
        if kind == "shared":
            unused = [path for path, one in image.shared.items() if not one.slice_count]
            return Edit(operation="VACUUM", forget_shared=unused, level=1)
        if kind in ("delete", "gone") and image.topics:
            topic = self._random.choice(list(image.topics.values()))
            return self._deleted(topic) if topic.deleted_ms is None else self._gone(topic)
        self._made += 1
        return creating(self._made)

    def _of_cluster(self, image: Image) -> Edit:
        self._made += 1
        node_id, name = self._random.randrange(3), f"user {self._random.randrange(3)}"
        held = image.brokers.get(node_id)
        rack = self._random.choice([None, "a"])
        broker = Broker(node_id, f"{self._made}", (Endpoint("PLAINTEXT", "h", 9092),), rack)
        credential = ScramCredential(b"salt", b"\x00\xff", str(self._made).encode(), 4096)
        ids = self._transactional_ids()
        return Edit(
            operation="TEST",
            next_producer_id=self._random.randrange(2**50),
            brokers={node_id: self._random.choice([broker, broker, None])},
            replaces={node_id: held.incarnation} if held else {},
            users={(name, "SCRAM-SHA-256"): self._random.choice([credential, credential, None])},
            transactional_ids=ids,
            added_to_transactions=self._added(image, ids),
        )

    def _transactional_ids(self) -> dict[str, TransactionalId | None]:
        """Some of three ids, in any state: what may follow what does not matter here."""
        found: dict[str, TransactionalId | None] = {}
        for number in self._some(range(3)):
            places = self._some(range(PARTITIONS))
            found[f"id {number}"] = self._random.choice(
                [self._transactional_id(number, places)] * 2 + [None]
            )
        return found

    def _added(
        self, image: Image, changed: Mapping[str, TransactionalId | None]
    ) -> dict[str, Added]:
        """What joins some of the transactions that are open after a change of ids."""
        ids = {**image.transactional_ids.by_id, **changed}
        opened = [name for name, one in ids.items() if one is not None and one.is_open]
        found = dict[str, Added]()
        for name in self._some(sorted(opened)):
            partitions, groups, offsets = self._touched(self._some(range(PARTITIONS)))
            found[name] = Added(partitions, groups, offsets)
        return found

    def _touched(self, places: list[int]) -> Any:
        return (
            tuple(TransactionPartition(topic_id(0), one) for one in places),
            tuple(f"g{one}" for one in places),
            tuple(
                PendingOffset("g", "t", one, self._random.randrange(9), 0, "m") for one in places
            ),
        )

    def _transactional_id(self, number: int, places: list[int]) -> TransactionalId:
        partitions, groups, offsets = self._touched(places)
        return TransactionalId(
            f"id {number}",
            producer_id=1000 * number + self._random.randrange(3),
            epoch=self._random.randrange(9),
            timeout_ms=self._random.randrange(1, 9),
            status=self._random.choice(list(TransactionStatus)),
            number=self._random.randrange(3),
            partitions=partitions,
            groups=groups,
            offsets=offsets,
        )

    def _deleted(self, topic: TopicImage) -> Edit:
        gone = replace(topic.description, deleted_ms=self.now_ms)
        edit = TopicEdit(description=gone)
        return Edit(operation="DELETE TOPICS", topics={gone.topic_id: edit})

    def _gone(self, topic: TopicImage) -> Edit:
        """Bring a deleted topic back, erase it, or forget one that is erased."""
        told, slices = topic.description, shared_slices(topic)
        if not topic.is_erased:
            back = TopicEdit(description=replace(told, deleted_ms=None))
            erased = TopicEdit(vacuum_horizon_ms=ALL_FILES_MS)
            edit = self._random.choice([back, erased])
            return Edit(operation="UNDELETE TOPIC", topics={told.topic_id: edit})
        topics = {told.topic_id: TopicEdit(remove=slices)} if slices else {}
        return Edit(operation="VACUUM", topics=topics, forget_topics=[told.topic_id])

    def _of_topic(self, topic: TopicImage) -> TopicEdit:
        number = self._random.randrange(PARTITIONS)
        live = topic.partition(number).entries()
        kinds = [self._appended, self._appended, self._appended, self._told]
        if live:
            kinds += [self._removed, self._rewritten, self._indexed]
        return self._random.choice(kinds)(topic, number, live)

    def _appended(self, topic: TopicImage, number: int, live: list[SegmentEntry]) -> TopicEdit:
        shared = f"__shared/{self._uuid()}.log"
        entries = [
            self._segment(partition, shared if self._random.random() < 0.4 else None, position)
            for position, partition in enumerate([number, *self._some(range(PARTITIONS))])
        ]
        key = ReceiptKey(f"app {self._random.randrange(3)}", self._random.random() < 0.5)
        receipt = Receipt((OffsetRange(0, 0, 1),), 1, self._random.randrange(9), None)
        epoch = topic.partition(number).leader_epoch + self._random.randrange(2)
        return TopicEdit(
            segments=at_log_end(topic, entries),
            receipts={key: receipt} if self._random.random() < 0.4 else {},
            leader_epochs={number: epoch},
            producers=self._used(),
        )

    def _used(self) -> dict[int, tuple[ProducerState, ...]]:
        """States of some of eight producers, in some partitions: sequences do not matter here."""
        numbers = self._some(range(PARTITIONS))
        return {number: tuple(map(self._state, self._some(range(8)))) for number in numbers}

    def _state(self, producer_id: int) -> ProducerState:
        first = self._random.randrange(99)
        batches = tuple(ProducerBatch(first + at, first + at, at, self.now_ms) for at in range(3))
        return ProducerState(producer_id, first % 3, batches[: self._random.randrange(4)])

    def _told(self, topic: TopicImage, number: int, live: list[SegmentEntry]) -> TopicEdit:
        log = topic.partition(number)
        start = self._random.randint(log.log_start_offset, log.log_end_offset)
        forget = self._some([entry.key for entry in topic.removed])
        return TopicEdit(
            partitions={number: PartitionState(start, 0, log.leader_epoch + 1, start, 0)},
            transactions={number: (OpenTransaction(7, start),) if start % 2 else ()},
            epochs={number: (EpochStart(0, 0), EpochStart(start % 3 + 1, start))},
            forget=forget,
            forget_receipts_before_ms=self.now_ms + self._random.randrange(-60, 60),
            forget_producers_before_ms=self.now_ms + self._random.randrange(-60, 60),
            vacuum_horizon_ms=self._random.randrange(NOW_MS),
        )

    def _removed(self, topic: TopicImage, number: int, live: list[SegmentEntry]) -> TopicEdit:
        gone = live[: self._random.randint(1, len(live))]
        state = PartitionState(log_start_offset=gone[-1].next_offset)
        keys = [entry.key for entry in gone]
        return TopicEdit(remove=keys, removed_ms=self.now_ms, partitions={number: state})

    def _rewritten(self, topic: TopicImage, number: int, live: list[SegmentEntry]) -> TopicEdit:
        first = self._random.randrange(len(live))
        gone = live[first : first + self._random.randint(1, 3)]
        low, high = gone[0].base_offset, gone[-1].next_offset
        made = self._segment(number, None, 0)._replace(base_offset=low, next_offset=high)
        return TopicEdit(
            segments=[made._replace(aborted=(AbortedRange(7, -1, high - low - 1),))],
            remove=[entry.key for entry in gone],
            leader_epochs={number: topic.partition(number).leader_epoch},
        )

    def _indexed(self, topic: TopicImage, number: int, live: list[SegmentEntry]) -> TopicEdit:
        chosen = self._random.choice(live)
        path = chosen.log_path.removesuffix(".log") + self._random.choice([".index", ".other"])
        return TopicEdit(replace=[chosen._replace(index_path=path, index_bytes=8)])

    def _uuid(self) -> str:
        """Return a UUIDv7 of its own, whatever the random numbers are."""
        self._made += 1
        return str(uuid7(self.now_ms, self._made.to_bytes(10)))

    def _segment(self, partition: int, shared: str | None, position: int) -> SegmentEntry:
        self._made += 1
        records = self._random.randint(1, 5)
        return SegmentEntry(
            partition=partition,
            base_offset=0,
            next_offset=records,
            file_base_offset=0,
            log_path=shared or f"t-{partition}/{0:020}.{self._uuid()}.log",
            log_position=position * 100 if shared else 0,
            log_bytes=100,
            max_timestamp=self.now_ms if records > 2 else -1,
            producer_ids=(7, 8) if records > 3 else None,
            transactional=records > 4,
            created_ms=self.now_ms,
        )

    def _some(self, values: Iterable[Any]) -> list[Any]:
        found = list(values)
        return self._random.sample(found, self._random.randint(0, min(2, len(found))))
