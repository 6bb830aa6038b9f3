"""`sparklog.testing`: the log dir that other people's tests use."""

from datetime import UTC, datetime
from importlib.metadata import entry_points
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    LogDirError,
    UnknownTopicError,
)
from sparklog.model import OffsetRange
from sparklog.testing import Record, TemporaryLogDir, log_dir

__all__ = ["log_dir"]


class TestProduce:
    def test_values_come_back_in_order(self, log_dir: TemporaryLogDir) -> None:
        topic = log_dir.topic("t")
        topic.produce("a", b"b", None)

        assert topic.values() == [b"a", b"b", None]

    def test_it_returns_the_offsets(self, log_dir: TemporaryLogDir) -> None:
        topic = log_dir.topic("t")
        topic.produce("a", "b")

        assert topic.produce("c") == (OffsetRange(0, 2, 3),)

    def test_nothing_is_nothing(self, log_dir: TemporaryLogDir) -> None:
        assert log_dir.topic("t").produce() == ()

    def test_a_record_comes_back_whole(self, log_dir: TemporaryLogDir) -> None:
        topic = log_dir.topic("t", partitions=2)
        record = Record("v", "k", (("h", b"1"), ("n", None)), partition=1, timestamp=5)
        topic.produce(record)

        assert topic.records() == [record._replace(value=b"v", key=b"k", offset=0)]

    def test_a_record_without_a_partition_goes_by_its_key(self, log_dir: TemporaryLogDir) -> None:
        topic = log_dir.topic("t", partitions=8)
        for number in range(3):
            topic.produce(Record(str(number), key="same"))
        (partition,) = {record.partition for record in topic.records()}

        assert topic.values(partition) == [b"0", b"1", b"2"]

    def test_a_partition_that_is_not_there_is_refused(self, log_dir: TemporaryLogDir) -> None:
        topic = log_dir.topic("t")

        with pytest.raises(UnknownTopicError, match="partition 7"):
            topic.produce(Record("a", partition=7))
        with pytest.raises(UnknownTopicError, match="partition 7"):
            topic.values(7)

    def test_headers_and_timestamps_of_other_types_are_refused(
        self, log_dir: TemporaryLogDir
    ) -> None:
        topic = log_dir.topic("t")
        headers: Any = {"h": b"1"}
        timestamp: Any = datetime(2013, 1, 1, tzinfo=UTC)

        with pytest.raises(InvalidRecordError, match=r"give pairs, \(\('h', b'1'\),\)"):
            topic.produce(Record("a", headers=headers))
        with pytest.raises(InvalidTimestampError, match="timestamp datetime.* is no integer"):
            topic.produce(Record("a", timestamp=timestamp))
        assert topic.records() == []


class TestLogDir:
    def test_it_is_a_path_that_every_call_takes(self, log_dir: TemporaryLogDir) -> None:
        log_dir.topic("t", config={"retention.ms": -1})

        assert AdminClient(log_dir).describe_topics()[0].configs == {"retention.ms": "-1"}
        assert AdminClient(str(log_dir)).list_topics() == ["t"]

    def test_a_topic_that_others_made_is_found_by_name(self, log_dir: TemporaryLogDir) -> None:
        AdminClient(log_dir).create_topics([NewTopic("t")])
        log_dir["t"].produce("a")

        assert TemporaryLogDir(log_dir)["t"].values() == [b"a"]

    def test_an_unknown_topic_is_refused(self, log_dir: TemporaryLogDir) -> None:
        with pytest.raises(LogDirError):
            log_dir["t"]
        log_dir.topic("t")
        with pytest.raises(UnknownTopicError, match="did you mean t"):
            log_dir["tt"]

    def test_no_plugin_brings_it_unasked(self) -> None:
        plugins = [entry.value for entry in entry_points(group="pytest11")]

        assert not any(value.startswith("sparklog") for value in plugins)
