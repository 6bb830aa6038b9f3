"""Spark as a consumer group, without a JVM: where a read begins, and what a stream commits."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.config.options import CONSUME_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError, OffsetOutOfRangeError
from sparklog.model import TopicPartition
from sparklog.spark.commit_group import ends, flat
from sparklog.spark.reading.groups import GroupCommits
from sparklog.spark.reading.plan import plan_pinned, plan_read, plan_start
from sparklog.spark.reading.position import Position
from tests.logs import append, catalog, new_topic
from tests.streams import Stream

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = "nightly"


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Topic `t` with two partitions of 10 records; the group has read 4 of the first."""
    log_dir = new_topic(tmp_path / "log", partitions=2)
    for partition in range(2):
        append(log_dir, partition, range(10))
    AdminClient(log_dir).alter_consumer_group_offsets(GROUP, {FIRST: 4})
    return log_dir


def options(**given: Any) -> dict[str, Any]:
    wanted = {"subscribe": "t", "startingOffsets": "committed", "groupId": GROUP, **given}
    return parse_options(CONSUME_OPTIONS, wanted)[0]


def committed(log_dir: str, group: str = GROUP) -> dict[TopicPartition, int]:
    found = AdminClient(log_dir).list_consumer_group_offsets(group)
    return {place: one.offset for place, one in found.items() if one is not None}


class TestABatch:
    @pytest.mark.parametrize(
        ("given", "spans"),
        [({}, [(4, 10), (0, 10)]), ({"auto.offset.reset": "latest"}, [(4, 10)])],
    )
    def test_begins_where_the_group_has_committed(
        self, log_dir: str, given: dict[str, str], spans: list[tuple[int, int]]
    ) -> None:
        found = plan_read(catalog(log_dir), options(**given))
        assert [(one.start, one.end) for one in found] == spans

    def test_without_a_commit_it_may_be_an_error(self, log_dir: str) -> None:
        with pytest.raises(OffsetOutOfRangeError, match="t-1: group 'nightly' has committed"):
            plan_read(catalog(log_dir), options(**{"auto.offset.reset": "none"}))

    def test_needs_a_group(self, log_dir: str) -> None:
        with pytest.raises(InvalidOptionError, match="committed needs the option groupId"):
            plan_read(catalog(log_dir), options(groupId=None))

    def test_offsets_of_other_topics_do_not_count(self, log_dir: str) -> None:
        admin = AdminClient(log_dir)
        admin.create_topics([NewTopic("other")])
        admin.alter_consumer_group_offsets(GROUP, {("other", 0): 0})
        assert len(plan_read(catalog(log_dir), options())) == 2

    def test_a_stream_begins_there_too(self, log_dir: str) -> None:
        assert plan_start(catalog(log_dir), options()) == {FIRST: 4, SECOND: 10}

    def test_ends_are_those_of_a_consume_of_the_log(self) -> None:
        told = r"sparklog\.spark\.consume.*with history=log.*neither one of history=auto or table"
        with pytest.raises(InvalidOptionError, match=told):
            ends(type("DataFrame", (), {})())

    def test_of_what_is_new_commits_where_it_began(self, log_dir: str) -> None:
        given = options(groupId="new", **{"auto.offset.reset": "latest"})
        found = plan_pinned(catalog(log_dir), given)
        assert (found.ranges, found.ends) == ([], {FIRST: 10, SECOND: 10})

    def test_offsets_are_given_in_two_shapes(self) -> None:
        assert flat({"t": {"0": 3}}) == flat({FIRST: 3}) == {FIRST: 3}
        of_pandas: Any = {"t": {0: np.int64(3)}}
        assert flat(of_pandas) == {FIRST: 3}

    @pytest.mark.parametrize(
        "place", ["t", ("t", 0, 1), ("t", "first"), ("t", "9" * 5_000), ("t", True), (0, 0)]
    )
    def test_offsets_of_no_partition_are_refused(self, place: Any) -> None:
        with pytest.raises(InvalidOptionError, match=re.escape(f"{place!r} is no partition")):
            flat({place: 3})

    @pytest.mark.parametrize("given", ['{"t": {"0": 3}}', None])
    def test_offsets_that_are_no_mapping_are_refused(self, given: object) -> None:
        kind = type(given).__name__
        with pytest.raises(InvalidOptionError, match=f"are a {kind}: .*{{topic: {{partition: off"):
            flat(given)

    @pytest.mark.parametrize("offset", ["2", 2.5, None, True])
    def test_offsets_that_are_none_are_refused(self, offset: Any) -> None:
        for given in ({"t": {"0": offset}}, {FIRST: offset}):
            with pytest.raises(InvalidOptionError, match=re.escape(f"{offset!r} is no offset")):
                flat(given)


class TestAStream:
    def test_commits_what_is_done_when_it_is_idle(self, log_dir: str) -> None:
        stream = Stream(log_dir, groupId="stream", maxOffsetsPerTrigger=8)
        while stream.step() is not None:
            pass
        assert committed(log_dir, "stream") == {FIRST: 10, SECOND: 10}

    def test_commits_nothing_of_what_may_fail(self, log_dir: str) -> None:
        stream = Stream(log_dir, groupId="stream")
        stream.plan()
        assert committed(log_dir, "stream") == {}

    def test_by_a_pattern_does_not_read_what_it_commits(self, log_dir: str) -> None:
        given = {"subscribe": None, "subscribePattern": "."}
        stream = Stream(log_dir, groupId="stream", **given)
        assert stream.step() is not None
        assert stream.step() is None
        assert stream.step() is None

    def test_without_a_group_commits_nothing(self, log_dir: str) -> None:
        stream = Stream(log_dir)
        while stream.step() is not None:
            pass
        assert [one.group_id for one in AdminClient(log_dir).list_consumer_groups()] == [GROUP]


class TestCommits:
    def commits(self, log_dir: str) -> GroupCommits:
        return GroupCommits(catalog(log_dir), GROUP)

    def position(self, log_dir: str, first: int, second: int) -> Position:
        topic_id = catalog(log_dir).topic("t").topic_id
        return Position({FIRST: first, SECOND: second}, {"t": topic_id})

    def test_never_go_back(self, log_dir: str) -> None:
        commits = self.commits(log_dir)
        commits.commit(self.position(log_dir, 2, 7))
        commits.wait()
        assert committed(log_dir) == {FIRST: 4, SECOND: 7}

    def test_unless_the_log_ends_before(self, log_dir: str) -> None:
        AdminClient(log_dir).alter_consumer_group_offsets(GROUP, {FIRST: 99})
        commits = self.commits(log_dir)
        commits.commit(self.position(log_dir, 10, 10))
        commits.wait()
        assert committed(log_dir) == {FIRST: 10, SECOND: 10}

    def test_of_a_topic_that_was_made_anew_are_left_out(self, log_dir: str) -> None:
        position = self.position(log_dir, 10, 10)
        admin = AdminClient(log_dir)
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 2)])
        commits = self.commits(log_dir)
        commits.commit(position)
        commits.wait()
        assert committed(log_dir) == {}

    def test_are_asked_for_once(self, log_dir: str) -> None:
        commits = self.commits(log_dir)
        before = catalog(log_dir).image().version
        for _ in range(3):
            commits.commit(self.position(log_dir, 10, 10))
            commits.wait()
        assert catalog(log_dir).image().version == before + 1

    @pytest.mark.parametrize("error", [OffsetOutOfRangeError("no"), ValueError("no")])
    def test_that_fail_are_told_and_made_up_for(
        self,
        log_dir: str,
        error: Exception,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        commits = self.commits(log_dir)
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(commits, "_commit", lambda _: _raise(error))
            commits.commit(self.position(log_dir, 9, 9))
            commits.wait()
        assert "group nightly: offsets were not committed" in caplog.text
        commits.commit(self.position(log_dir, 10, 10))
        commits.wait()
        assert committed(log_dir) == {FIRST: 10, SECOND: 10}


def _raise(error: Exception) -> None:
    raise error
