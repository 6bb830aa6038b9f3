"""An administrator: deletes records, adds partitions, alters configs, makes and drops topics."""

import random
import time

from sparklog.admin import AdminClient, AlterConfigOp, NewTopic
from sparklog.model import EARLIEST, LATEST, TopicDescription, TopicPartition
from tests.soak.history import Altered, Deleted, DeletionAsked, Journal
from tests.soak.setup import DELAYS, PARTITIONS_MAX, REVISION, TOPIC, Life

SCRATCH = "scratch"
PAUSE_MAX_S = 0.5


def administer(life: Life) -> None:
    """Do one thing after the other until the deadline."""
    administrator = Administrator(life)
    while time.monotonic() < life.deadline:
        administrator.act()
        time.sleep(administrator.random.uniform(0, PAUSE_MAX_S))


class Administrator:
    """One life of an administrator."""

    def __init__(self, life: Life) -> None:
        self.random: random.Random = life.draws()
        self._journal: Journal = life.journal()
        self._admin = AdminClient(life.log_dir)

    def act(self) -> None:
        """Do something, most often delete records."""
        acts = (self._delete_records, self._alter, self._grow, self._make_or_drop_a_topic)
        self.random.choices(acts, weights=(5, 3, 0.5, 1))[0]()

    def _delete_records(self) -> None:
        partition = TopicPartition(TOPIC, self.random.randrange(self._topic().num_partitions))
        (start,) = self._admin.list_offsets({partition: EARLIEST}).values()
        (end,) = self._admin.list_offsets({partition: LATEST}).values()
        share = 0.3 * self.random.random() ** 3
        offset = start.offset + round((end.offset - start.offset) * share)
        self._journal.note(DeletionAsked(partition.partition, offset, time.monotonic_ns()))
        low = self._admin.delete_records({partition: offset})[partition]
        self._journal.note(Deleted(partition.partition, low, time.monotonic_ns()))

    def _alter(self) -> None:
        revision = int(self._topic().configs.get(REVISION, 0)) + 1
        codec = self.random.choice(("producer", "zstd", "lz4", "gzip", "snappy", "uncompressed"))
        wanted = {
            REVISION: revision,
            "compression.type": codec,
            "index.interval.bytes": self.random.choice((100, 1000, 4096)),
            "index.build": self.random.choice(("write", "write", "job")),
        }
        ops = [AlterConfigOp(key, value) for key, value in wanted.items()]
        (topic,) = self._admin.incremental_alter_configs({TOPIC: ops})
        self._note(topic)

    def _grow(self) -> None:
        count = self._topic().num_partitions
        if count < PARTITIONS_MAX:
            (topic,) = self._admin.create_partitions({TOPIC: count + 1})
            self._note(topic)

    def _make_or_drop_a_topic(self) -> None:
        if SCRATCH in self._admin.list_topics():
            self._admin.delete_topics([SCRATCH])
        else:
            self._admin.create_topics([NewTopic(SCRATCH, 2, DELAYS)])

    def _topic(self) -> TopicDescription:
        return self._admin.describe_topics([TOPIC])[0]

    def _note(self, topic: TopicDescription) -> None:
        revision = int(topic.configs[REVISION]) if REVISION in topic.configs else 0
        self._journal.note(Altered(topic.num_partitions, revision, time.monotonic_ns()))
