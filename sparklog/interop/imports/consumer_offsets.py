"""The offsets that consumer groups have committed, from a broker's __consumer_offsets.

The last record of a (group, topic, partition) counts; a null value deletes it. Commits of aborted
transactions do not count. Those of a transaction take effect at its end, unless an ordinary record
lies behind them (OffsetMetadataManager.replayEndTransactionMarker).
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sparklog.coordinator.records import (
    COMMIT_TYPES,
    GROUP_RECORDS,
    OFFSETS_TOPIC,
    read_record,
)
from sparklog.errors import CorruptRecordError, UnknownRecordTypeError
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.broker_files.file_records import Bytes
from sparklog.interop.broker_files.java_records import JavaRecord, records_at
from sparklog.interop.examine import marker_of
from sparklog.interop.imports.broker_dirs import BrokerDirs
from sparklog.interop.imports.coordinator_log import each_batch
from sparklog.record.batches import BatchTable
from sparklog.record.markers import COMMIT

COMMITS_MAX: Final = 1_000_000
"""The most offsets in memory: a small compressed file may hold any number of them."""


class GroupOffset(NamedTuple):
    """A committed offset; `leader_epoch` is -1 and `metadata` empty where the client gave none."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int


_Key = tuple[str, str, int]


def committed_offsets(log_dirs: Sequence[str]) -> list[GroupOffset]:
    """Return the committed offsets in brokers' log directories, as `consumer_offsets`."""
    return consumer_offsets(BrokerDirs(log_dirs).partitions_of(OFFSETS_TOPIC))


def consumer_offsets(partitions: Iterable[PartitionDir]) -> list[GroupOffset]:
    """Return the committed offsets of all groups, sorted by group, topic and partition.

    `partitions` are those of __consumer_offsets. Raises CorruptRecordError naming the file.
    """
    found: dict[_Key, GroupOffset] = {}
    for partition in partitions:
        each_batch(partition, _Commits(found).batch)
    return sorted(found.values())


def pending_offsets(partitions: Iterable[PartitionDir]) -> dict[int, list[GroupOffset]]:
    """Return the offsets in open transactions, by producer id.

    Of several offsets of a group and partition it is the newest one.
    `partitions` are those of __consumer_offsets. Raises CorruptRecordError naming the file.
    """
    found: dict[int, list[GroupOffset]] = {}
    for partition in partitions:
        reader = _Commits({})
        each_batch(partition, reader.batch)
        for producer, records in reader.pending.items():
            held: dict[_Key, GroupOffset] = {}
            for record in records:
                _apply(record, held, {})
            found.setdefault(producer, []).extend(sorted(held.values()))
    return found


class _Commits:
    """Applies the records of one partition; records of a transaction when it commits."""

    def __init__(self, found: dict[_Key, GroupOffset]) -> None:
        self._found = found
        self._offsets: dict[_Key, int] = {}
        self.pending: dict[int, list[JavaRecord]] = {}
        """Records of transactions that are open, by producer id."""
        self._held = 0

    def batch(self, view: Bytes, batch: BatchTable) -> None:
        """Take a table of one batch."""
        producer = int(batch.producer_id[0])
        if batch.is_control[0]:
            if not batch.record_count[0]:
                return  # emptied by the cleaner, with its transaction
            ended = self.pending.pop(producer, [])
            self._held -= len(ended)
            if marker_of(view, batch) == COMMIT:
                self._apply(ended)
            return
        records = records_at(view, int(batch.position[0]), int(batch.size[0]))
        if batch.is_transactional[0]:
            pending = self.pending.setdefault(producer, [])
            for record in records:
                pending.append(record)
                self._held += 1
                _check_count(self._held)
        else:
            self._apply(records)

    def _apply(self, records: Iterable[JavaRecord]) -> None:
        for record in records:
            _apply(record, self._found, self._offsets)
            _check_count(max(len(self._found), len(self._offsets)))


def _check_count(count: int) -> None:
    if count > COMMITS_MAX:
        raise CorruptRecordError(f"more than {COMMITS_MAX} committed offsets")


def _apply(record: JavaRecord, found: dict[_Key, GroupOffset], offsets: dict[_Key, int]) -> None:
    """Apply a record unless a later one was applied; `offsets` has where the last ones lie."""
    try:
        read = read_record(GROUP_RECORDS, record.key, record.value)
    except UnknownRecordTypeError:
        return
    if read.type not in COMMIT_TYPES:
        return
    key = read.key["group"], read.key["topic"], read.key["partition"]
    value = read.value
    if offsets.get(key, -1) > record.offset:
        return
    offsets[key] = record.offset
    if value is None:
        found.pop(key, None)
        return
    found[key] = GroupOffset(
        *key,
        value["offset"],
        value.get("leaderEpoch", -1),
        value["metadata"] or "",
        value["commitTimestamp"],
    )
