"""Writes to topics and offsets of groups by one entry: all of it, or nothing, and once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklog.admin import AdminClient, AlterConfigOp, CommittedOffset
from sparklog.clock import ManualClock, SystemClock
from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import (
    CommitConflictError,
    GroupNotEmptyError,
    InvalidOptionError,
    OffsetOutOfRangeError,
    SparklogError,
    UnknownTopicError,
)
from sparklog.log_writer import TopicWriter, WriteOptions, plan_write, write_of
from sparklog.metadata.catalog import Catalog, Landed, Write
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from sparklog.storage.files import Files
from sparklog.transactions import with_offsets
from sparklog.transactions.with_offsets import GroupOffsets, commit_with_offsets, has_landed
from tests.client_batches import NOW_MS
from tests.crashes import Crash, Fails
from tests.group_language import GROUP, Groups, stable
from tests.group_logs import append_records
from tests.logs import columns
from tests.transactions import Instance, new_log_dir
from tests.unit.admin.test_groups import joins

PLACE = TopicPartition("in", 0)
WRITES = ("create", "write", "close", "sync", "put_new")
"""A shared segment with a batch of offsets, and the entry."""
ALL = {"out": {0: ["x"], 1: []}, "late": {0: ["x"], 1: []}}
NOTHING: dict[str, dict[int, list[str]]] = {"out": {0: [], 1: []}, "late": {0: [], 1: []}}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Three topics, and two groups that have read from the first."""
    path = str(tmp_path / "log")
    new_log_dir(path, "in", "out", "late")
    admin = AdminClient(path, clock=ManualClock(NOW_MS))
    for group in ("a", "b"):
        admin.alter_consumer_group_offsets(group, {PLACE: 1})
    return path


def opened(log_dir: str, files: Files | None = None) -> Catalog:
    return Catalog(files or open_files(log_dir), ManualClock(NOW_MS), flush=False)


def write(catalog: Catalog, topic: str, **identity: object) -> Write:
    """A record "x" for partition 0, in a segment that is not committed yet."""
    plan = plan_write(catalog, topic, WriteOptions(flush=False))
    writer = TopicWriter(catalog.files, plan, catalog.clock, seed=0)
    writer.write(columns(["x"]), pa.array([0], pa.int32()))
    return write_of(plan, writer.close(), **identity)  # type: ignore[arg-type] # app_id, version


def to(offset: int, *groups: str) -> GroupOffsets:
    return {group: {PLACE: CommittedOffset(offset)} for group in groups or ("a",)}


def commit(catalog: Catalog, offsets: GroupOffsets, **identity: object) -> list[Landed]:
    """Commit a record to each of two topics, and offsets."""
    writes = [write(catalog, topic, **identity) for topic in ("out", "late")]
    return commit_with_offsets(catalog, writes, offsets)


def seen(log_dir: str) -> dict[str, dict[int, list[str]]]:
    instance = Instance(log_dir)
    return {topic: instance.values(topic) for topic in ("out", "late")}


def offset(log_dir: str, group: str = "a") -> int | None:
    found = AdminClient(log_dir).list_consumer_group_offsets(group).get(PLACE)
    return found and found.offset


def test_all_of_it_is_one_entry(log_dir: str) -> None:
    catalog = opened(log_dir)
    version = catalog.image().version
    landed = commit(catalog, to(5, "a", "b"))

    assert [one.version for one in landed] == [version + 1, version + 1]
    assert (seen(log_dir), offset(log_dir), offset(log_dir, "b")) == (ALL, 5, 5)


def test_offsets_are_batches_of_the_allowed_size(log_dir: str) -> None:
    admin, places = AdminClient(log_dir), [PLACE, TopicPartition("in", 1)]
    small = {OFFSETS_TOPIC: [AlterConfigOp("max.message.bytes", "130")]}
    admin.incremental_alter_configs(small)
    commit(opened(log_dir), {"a": dict.fromkeys(places, CommittedOffset(5))})

    count = opened(log_dir).topic(OFFSETS_TOPIC).num_partitions
    row = Instance(log_dir).log(OFFSETS_TOPIC, partition_of("a", count)).entries()[-1]
    assert (row.batch_count, row.record_count, row.log_bytes <= 260) == (2, 2, True)
    assert [one and one.offset for one in admin.list_consumer_group_offsets("a").values()] == [5, 5]


def test_without_offsets_it_is_a_write_to_topics(log_dir: str) -> None:
    version = opened(log_dir).image().version
    commit(opened(log_dir), {"a": {}})

    assert (seen(log_dir), offset(log_dir)) == (ALL, 1)
    assert opened(log_dir).image().version == version + 1


def test_a_replay_is_answered_and_moves_no_offset(log_dir: str) -> None:
    first = commit(opened(log_dir), to(5), app_id="app", version=1)
    AdminClient(log_dir).alter_consumer_group_offsets("a", {PLACE: 9})
    again = commit(opened(log_dir), to(5), app_id="app", version=1)

    assert [one.ranges for one in again] == [one.ranges for one in first]
    assert (all(one.replayed for one in again), seen(log_dir), offset(log_dir)) == (True, ALL, 9)


class TestHasLanded:
    def landed(self, log_dir: str, *names: str, offsets: GroupOffsets, version: int = 1) -> bool:
        catalog = opened(log_dir)
        topics = [catalog.topic(name) for name in names]
        return has_landed(catalog, topics, offsets, "app", version)

    def test_says_no_before_and_yes_behind(self, log_dir: str) -> None:
        before = self.landed(log_dir, "out", "late", offsets=to(5))
        commit(opened(log_dir), to(5), app_id="app", version=1)

        assert not before
        assert self.landed(log_dir, "out", "late", offsets=to(5))
        assert not self.landed(log_dir, "out", "late", offsets=to(5), version=2)

    def test_says_no_where_no_group_has_ever_committed(self, tmp_path: Path) -> None:
        path = str(tmp_path / "new")
        new_log_dir(path, "out")

        assert not self.landed(path, "out", offsets=to(5))

    def test_refuses_the_version_of_another_write(self, log_dir: str) -> None:
        commit(opened(log_dir), to(5), app_id="app", version=1)

        with pytest.raises(InvalidOptionError, match="has landed in out, not in in: it was"):
            self.landed(log_dir, "out", "in", offsets={})

    def test_refuses_offsets_that_the_write_did_not_have(self, log_dir: str) -> None:
        commit(opened(log_dir), {}, app_id="app", version=1)

        with pytest.raises(InvalidOptionError, match="landed in out, not in __consumer_offsets"):
            self.landed(log_dir, "out", offsets=to(5))


class TestRefusals:
    @pytest.mark.parametrize(
        ("offsets", "error"),
        [
            ({"a": {TopicPartition("none", 0): CommittedOffset(1)}}, UnknownTopicError),
            (to(-1), OffsetOutOfRangeError),
        ],
    )
    def test_offsets_that_no_group_can_have_write_nothing(
        self, log_dir: str, offsets: GroupOffsets, error: type[SparklogError]
    ) -> None:
        with pytest.raises(error):
            commit(opened(log_dir), offsets)
        assert (seen(log_dir), offset(log_dir)) == (NOTHING, 1)

    def test_offsets_of_a_group_with_members_are_theirs(self, log_dir: str) -> None:
        catalog = opened(log_dir)
        self.members(catalog, lives=True)

        with pytest.raises(GroupNotEmptyError, match="'readers' has 1 members"):
            commit(catalog, to(5, "a", GROUP))
        assert (seen(log_dir), offset(log_dir)) == (NOTHING, 1)

    def test_members_whose_gateway_is_gone_are_removed(self, log_dir: str) -> None:
        catalog = opened(log_dir)
        self.members(catalog, lives=False)
        commit(catalog, to(5, "a", GROUP))

        [found] = AdminClient(log_dir).describe_consumer_groups([GROUP])
        assert (seen(log_dir), offset(log_dir, GROUP), found.members) == (ALL, 5, ())

    def members(self, catalog: Catalog, *, lives: bool) -> None:
        groups, clock = Groups(), catalog.clock
        stable(groups, "ada")
        append_records(catalog, groups.log)
        assert isinstance(clock, ManualClock)
        joins(catalog, clock, lives=lives)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens, each once, while a batch of offsets is written."""
    events: list[Callable[[], object]] = []

    def batch(*given: Any, **options: Any) -> bytes:
        if events:
            events.pop()()
        return batch_of(*given, **options)

    monkeypatch.setattr(with_offsets, "batch_of", batch)
    return events


class TestOthers:
    def other(self, log_dir: str, value: int) -> None:
        offset = CommittedOffset(value, committed_ms=SystemClock().now_ms())
        record = offset_record("a", TopicPartition("in", 1), offset)
        append_records(opened(log_dir), [record], "a")

    def test_that_were_first_keep_what_they_wrote(
        self, log_dir: str, meanwhile: list[Callable[[], object]]
    ) -> None:
        meanwhile.append(lambda: self.other(log_dir, 7))
        commit(opened(log_dir), to(5))

        found = AdminClient(log_dir).list_consumer_group_offsets("a")
        assert [one and one.offset for one in found.values()] == [5, 7]
        assert seen(log_dir) == ALL

    def test_that_never_rest_are_a_conflict(
        self, log_dir: str, meanwhile: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(with_offsets, "TRIES_MAX", 2)
        meanwhile += [lambda: self.other(log_dir, 7)] * 2

        with pytest.raises(CommitConflictError, match="of the groups a: try again"):
            commit(opened(log_dir), to(5))
        assert seen(log_dir) == NOTHING

    def test_batches_carry_the_leader_epoch_of_their_partition(self, log_dir: str) -> None:
        from sparklog.coordinator.offsets_topic import claim

        catalog = opened(log_dir)
        topic = catalog.topic(OFFSETS_TOPIC)
        number = partition_of("a", topic.num_partitions)
        claim(catalog, topic, number)
        commit(catalog, to(5))

        row = catalog.partition(topic, number).entries()[-1]
        data = bytes(catalog.files.read(row.log_path))[row.log_position :]
        assert (row.max_leader_epoch, int.from_bytes(data[12:16], "big")) == (1, 1)
        assert catalog.partition(topic, number).epochs[-1].epoch == 1


def test_these_are_the_writes_of_a_commit(log_dir: str) -> None:
    writes = [write(opened(log_dir), "out")]
    files: Any = Fails(open_files(log_dir))
    commit_with_offsets(opened(log_dir, files), writes, to(5))

    assert files.done == list(WRITES)


@pytest.mark.parametrize("is_behind", [False, True])
@pytest.mark.parametrize("at", range(1, len(WRITES) + 1))
def test_a_crash_at_any_write_leaves_all_or_nothing(
    log_dir: str, at: int, *, is_behind: bool
) -> None:
    """Goal: a write that was killed anywhere is whole or nothing, and runs again to the same end.

    Method: the store fails before or behind each write of the commit; then it is run once more.
    """
    identity = {"app_id": "app", "version": 1}
    writes = [write(opened(log_dir), topic, **identity) for topic in ("out", "late")]
    files: Any = Fails(open_files(log_dir), at, is_behind=is_behind)
    dying = opened(log_dir, files)
    with pytest.raises(Crash):
        commit_with_offsets(dying, writes, to(5))
    assert (seen(log_dir), offset(log_dir)) in [(ALL, 5), (NOTHING, 1)]

    commit(opened(log_dir), to(5), **identity)
    assert (seen(log_dir), offset(log_dir)) == (ALL, 5)
