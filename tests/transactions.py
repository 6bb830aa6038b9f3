"""A log dir with transactional producers, in one thread: each is told what a client would do."""

from typing import Any

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.group_commit.append_slots import Append, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.transactions import NOBODY, Producer, Step, edit_of_ids
from sparklog.metadata.state.image import PartitionLog
from sparklog.metadata.state.transactions import (
    PendingOffset,
    TransactionalId,
    TransactionPartition,
)
from sparklog.metadata.upkeep.fold import fold
from sparklog.model import READ_COMMITTED
from sparklog.storage import open_files
from sparklog.storage.files import Files
from sparklog.transactions.steps import Transactions
from tests.appends import told
from tests.client_batches import NOW_MS, client_batch
from tests.metadata_logs import lose_topic

TRANSACTIONAL = 0x10
TIMEOUT_MS = 60_000
OLD = 9
"""A version of Produce without KIP-890: epochs stay, and partitions are added first."""


class Instance:
    """An instance over a log dir: it takes any step of any producer."""

    def __init__(self, log_dir: str, files: Files | None = None) -> None:
        self.catalog = Catalog(files or open_files(log_dir), ManualClock(NOW_MS))
        self.transactions = Transactions(self.catalog)
        self.writer = AppendWriter(self.catalog, flush=False)

    def log(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        """A partition as it is now."""
        return self.catalog.partition(self.catalog.topic(topic), partition)

    def state(self, name: str = "id") -> TransactionalId:
        """A transactional id as it is now."""
        return self.transactions.describe(name)

    def values(self, topic: str = "t", isolation: str = READ_COMMITTED) -> dict[int, list[str]]:
        """What a reader of an isolation level sees of each partition."""
        found = self.catalog.topic(topic)
        reader = TopicReader(self.catalog.files, found, self.catalog.topic_image(found))
        return {number: read(reader, number, isolation) for number in range(found.num_partitions)}


def read(reader: TopicReader, partition: int, isolation: str) -> list[str]:
    """The values of one partition, up to where the isolation level ends."""
    log = reader.partition(partition)
    slices = reader.slices(partition, log.log_start_offset, log.end_offset(isolation))
    found = read_slices(reader.files, reader.directory, slices, isolation=isolation)
    return [value.decode() for one in found for value in one.value.to_pylist()]


class Client:
    """A producer of a transactional id, which asks an instance. It speaks as Produce `version`."""

    def __init__(self, instance: Instance, name: str = "id", *, version: int = 13) -> None:
        self.instance = instance
        self.name = name
        self.version = version
        self._sequences: dict[tuple[str, int], int] = {}
        self.producer = NOBODY

    def init(self, expected: Producer = NOBODY) -> Producer:
        """InitProducerId."""
        self.goes_on(self.instance.transactions.init(self.name, TIMEOUT_MS, expected))
        return self.producer

    @property
    def step(self) -> Step:
        """This producer's step."""
        return Step(self.name, self.producer)

    def add(self, *partitions: int, topic: str = "t") -> None:
        """AddPartitionsToTxn."""
        topic_id = self.instance.catalog.topic(topic).topic_id
        places = [TransactionPartition(topic_id, one) for one in partitions]
        self.instance.transactions.add_partitions(self.step, places)

    def offsets(self, group: str, offset: int, topic: str = "t", partition: int = 0) -> None:
        """TxnOffsetCommit of one offset."""
        pending = PendingOffset(group, topic, partition, offset)
        self.instance.transactions.commit_offsets(self.step, group, [pending])

    def produce(
        self,
        value: str,
        partition: int = 0,
        topic: str = "t",
        attributes: int = TRANSACTIONAL,
        key: bytes | None = None,
        skips: int = 0,
    ) -> Any:
        """Produce one record; its offset, or the kind of the error.

        With `skips` its sequence is not the next one: -1 sends the one before again.
        """
        sequence = self.next_sequence(partition, topic) + skips
        slot = self.slot(value, partition, topic, attributes, key, sequence)
        self.instance.writer.write([slot])
        assert slot.outcome is not None
        outcome = told(slot.outcome)
        if isinstance(outcome, int):
            self._sequences[topic, partition] = sequence + 1
        return outcome

    def slot(
        self,
        value: str,
        partition: int = 0,
        topic: str = "t",
        attributes: int = TRANSACTIONAL,
        key: bytes | None = None,
        sequence: int = 0,
    ) -> Slot:
        """One record to produce."""
        batch = client_batch(
            value,
            keys=[key],
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            attributes=attributes,
        )
        append = Append(self.instance.catalog.topic(topic).topic_id, partition, batch)
        return Slot(append, self.version, self.step.transactional_id)

    def sent(self, count: int, partition: int = 0, topic: str = "t") -> None:
        """Take note that records were sent before, to whomever."""
        self._sequences[topic, partition] = self.next_sequence(partition, topic) + count

    def next_sequence(self, partition: int = 0, topic: str = "t") -> int:
        """The sequence of the next record of a partition."""
        return self._sequences.get((topic, partition), 0)

    def commit(self) -> Producer:
        """EndTxn."""
        return self._end(is_commit=True)

    def abort(self) -> Producer:
        """EndTxn."""
        return self._end(is_commit=False)

    def _end(self, *, is_commit: bool) -> Producer:
        bumps = self.version > 11
        found = self.instance.transactions.end(self.step, is_commit=is_commit, bumps=bumps)
        self.goes_on(found)
        return found

    def goes_on(self, producer: Producer) -> None:
        """Take another producer id or epoch: sequences begin anew."""
        if producer != self.producer:
            self.producer = producer
            self._sequences.clear()


def new_log_dir(path: str, *topics: str, partitions: int = 2) -> Instance:
    """A new log dir with topics, and an instance over it."""
    AdminClient(path, clock=ManualClock(NOW_MS)).create_topics(
        [NewTopic(name, partitions) for name in topics]
    )
    return Instance(path)


def with_damage(instance: Instance, topic: str) -> Instance:
    """A new instance that cannot read a topic (`lose_topic`)."""
    fold(instance.catalog.log)
    found = Instance(instance.catalog.files.uri)
    lose_topic(found.catalog, topic)
    return found


def ready(instance: Instance, version: int = 13) -> Client:
    """A producer that is ready."""
    found = Client(instance, version=version)
    found.init()
    return found


def with_epoch(client: Client, epoch: int) -> Producer:
    """Take a producer's epoch near its end, as thousands of steps would do."""
    known = client.instance.state(client.name)
    edit = edit_of_ids("TEST", known._replace(epoch=epoch))
    client.instance.catalog.log.commit(lambda _: edit)
    client.producer = client.producer._replace(epoch=epoch)
    return client.producer
