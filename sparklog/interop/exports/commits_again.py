"""Commits of groups that an export writes again, without their leader epochs.

A committed offset has the leader epoch of the last record that its consumer has read. If it is
above that of the partition at the broker, Kafka's Java consumers wait for a leader of this epoch,
and fetch nothing. So an export adds such commits at the end of __consumer_offsets once more,
without an epoch: the later record counts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sparklog.config import TopicConfig
from sparklog.coordinator.batches import batch_of, packed
from sparklog.coordinator.commits.offsets import offset_record, read_commit
from sparklog.coordinator.offsets_topic import load
from sparklog.coordinator.records import Record, is_offset
from sparklog.coordinator.requests import NO_EPOCH, CommittedOffset
from sparklog.log_reader import TopicReader
from sparklog.model import TopicPartition


class CommitBatch(NamedTuple):
    """The records of one batch, and their time."""

    records: Sequence[Record]
    now_ms: int

    def placed(self, offset: int, leader_epoch: int) -> bytes:
        """Return the batch's bytes at an offset of the log."""
        return batch_of(self.records, self.now_ms, offset=offset, leader_epoch=leader_epoch)


def commits_again(
    reader: TopicReader, partition: int, epoch_of: Callable[[TopicPartition], int], now_ms: int
) -> list[CommitBatch]:
    """Return the commits in a partition of __consumer_offsets that the target must have again.

    `epoch_of` gives the newest leader epoch of a partition at the target. Raises the errors of
    reading.
    """
    newest: dict[tuple[str, TopicPartition], CommittedOffset] = {}

    def note(key: bytes, value: bytes | None) -> None:
        if not is_offset(key):
            return
        group_id, place, offset = read_commit(key, value)
        if offset is None:
            newest.pop((group_id, place), None)
        else:
            newest[group_id, place] = offset

    load(reader, partition, note)
    records = [
        offset_record(group_id, place, offset._replace(leader_epoch=NO_EPOCH))
        for (group_id, place), offset in newest.items()
        if offset.leader_epoch >= 0 and offset.leader_epoch > epoch_of(place)
    ]
    most = TopicConfig.parse(reader.topic.configs).max_message_bytes
    return [CommitBatch(some, now_ms) for some in packed(([one] for one in records), most)]
