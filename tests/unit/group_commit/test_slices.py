"""Small records of several topics are encoded together, and lie in the log as a TopicWriter's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import InvalidTimestampError, RecordTooLargeError
from sparklog.group_commit.rows import FEW, Request, Rows
from sparklog.group_commit.share import Counts, Written
from sparklog.group_commit.writer import GroupWriter
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_writer import TopicWriter, WriteOptions
from sparklog.log_writer.slice_entry import slice_entry
from sparklog.model import Codec
from sparklog.produce.partitioner import DefaultPartitioner
from sparklog.record.encode import BatchSettings, encode
from tests.logs import FOREVER, catalog, columns, rows

NAMES = ("a", "b", "c")


def request(*values: str, partition: int = 0, timestamp: int | None = None) -> Request:
    count = len(values)
    return Request(
        Rows(
            key=[None] * count,
            value=[value.encode() for value in values],
            partition=[partition] * count,
            timestamp=[timestamp] * count,
            headers=[None] * count,
        )
    )


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics for which a TopicWriter was made."""
    made: list[str] = []
    init = TopicWriter.__init__

    def noted(writer: TopicWriter, *arguments: Any, **options: Any) -> None:
        init(writer, *arguments, **options)
        made.append(writer.plan.topic.name)

    monkeypatch.setattr(TopicWriter, "__init__", noted)
    return made


@pytest.fixture
def writer(log_dir: str) -> GroupWriter:
    """A writer to the topics a, b and c, which is of other settings."""
    AdminClient(log_dir).create_topics(
        [
            NewTopic("a", 2, FOREVER),
            NewTopic("b", 2, FOREVER),
            NewTopic("c", 2, {**FOREVER, "compression.type": "gzip"}),
        ]
    )
    return GroupWriter(catalog(log_dir), WriteOptions(batch_size=200), Counts())


def values(log_dir: str, topic: str) -> dict[int, list[tuple[int, str]]]:
    """The records of a topic: offset and value, by partition."""
    return {
        partition: [(row.offset, str(row.value, "utf-8")) for row in found if row.value is not None]
        for partition, found in rows(log_dir, topic).items()
    }


class TestGroup:
    def test_needs_no_writer_a_topic(
        self, writer: GroupWriter, writers: list[str], log_dir: str
    ) -> None:
        for value in ("x", "y"):
            group = [request(value, partition=1), request(value, value, partition=0)]
            found = writer.write(dict.fromkeys(NAMES, group))

        assert writers == []
        assert all(isinstance(one, Written) for outcomes in found.values() for one in outcomes)
        for name in NAMES:
            assert values(log_dir, name) == {
                0: [(0, "x"), (1, "x"), (2, "y"), (3, "y")],
                1: [(0, "x"), (1, "y")],
            }

    def test_leaves_large_records_to_a_writer(
        self, writer: GroupWriter, writers: list[str], log_dir: str
    ) -> None:
        header = [{"key": "h", "value": b"y" * 150}]
        with_headers = request("x", "y")
        with_headers.rows.headers[:] = [header, header]
        writer.write({"a": [request("x" * 300)], "b": [with_headers], "c": [request("z")]})

        assert writers == ["a", "b"]
        assert [len(values(log_dir, name)[0]) for name in NAMES] == [1, 2, 1]

    def test_leaves_refused_records_to_a_writer(
        self, writer: GroupWriter, log_dir: str, writers: list[str]
    ) -> None:
        AdminClient(log_dir).create_topics([NewTopic("d", 1, {"max.message.bytes": "70"})])
        group = {
            "a": [request("x")],
            "b": [request("y", timestamp=2**62)],
            "d": [request("z" * 20)],
        }
        found = writer.write(group)

        kinds = {name: type(outcomes[0]) for name, outcomes in found.items()}
        assert kinds == {"a": Written, "b": InvalidTimestampError, "d": RecordTooLargeError}
        assert writers == ["b", "d"]

    def test_a_record_keeps_the_partition_that_it_names_beside_one_that_names_none(
        self, writer: GroupWriter, log_dir: str
    ) -> None:
        mixed = Rows([None] * 2, [b"free", b"named"], [None, 1], [None] * 2, [None] * 2)
        writer.write({"a": [Request(mixed)]})

        found = values(log_dir, "a")
        assert "named" in [value for _, value in found[1]]
        assert sorted(value for part in found.values() for _, value in part) == ["free", "named"]

    def test_leaves_topics_without_shared_segments_to_a_writer(
        self, writer: GroupWriter, log_dir: str, writers: list[str]
    ) -> None:
        config = {**FOREVER, "sparklog.shared.segment.max.bytes": "0"}
        AdminClient(log_dir).create_topics([NewTopic("own", 1, config)])
        writer.write({"own": [request("x")], "a": [request("x")]})

        assert writers == ["own"]
        assert values(log_dir, "own") == values(log_dir, "a") == {0: [(0, "x")]}


@pytest.fixture
def assigned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each call of the partitioner has placed."""
    counts: list[int] = []
    assign = DefaultPartitioner.assign

    def noted(partitioner: DefaultPartitioner, records: Any, partitions: int) -> Any:
        counts.append(len(records))
        return assign(partitioner, records, partitions)

    monkeypatch.setattr(DefaultPartitioner, "assign", noted)
    return counts


def without_keys(count: int) -> Rows:
    return Rows(
        key=[None] * count,
        value=[b"x"] * count,
        partition=[None] * count,
        timestamp=[None] * count,
        headers=[None] * count,
    )


class TestWithoutAKernel:
    """Few records without keys stay in their partition without a call of the partitioner."""

    def test_records_follow_the_last_ones(
        self, writer: GroupWriter, log_dir: str, assigned: list[int]
    ) -> None:
        for _ in range(3):
            writer.write({"a": [Request(without_keys(1)), Request(without_keys(1))]})

        assert sorted(map(len, values(log_dir, "a").values())) == [6]
        assert assigned == [2]

    def test_many_records_are_left_to_the_partitioner(
        self, writer: GroupWriter, assigned: list[int]
    ) -> None:
        for _ in range(2):
            writer.write({"a": [Request(without_keys(FEW + 1))]})

        assert assigned == [FEW + 1] * 2

    def test_a_key_decides(self, writer: GroupWriter, log_dir: str, assigned: list[int]) -> None:
        keyed = Rows([b"k"], [b"keyed"], [None], [None], [None])
        for _ in range(2):
            writer.write({name: [Request(without_keys(1)), Request(keyed)] for name in "ab"})

        places = {
            partition
            for name in "ab"
            for partition, found in values(log_dir, name).items()
            if "keyed" in [value for _, value in found]
        }
        assert len(places) == 1
        assert assigned == [2] * 4


@given(
    times=st.lists(st.integers(-1, 2**62), min_size=1, max_size=5),
    base_offset=st.integers(0, 2**40),
    settings=st.builds(BatchSettings, codec=st.sampled_from(Codec), leader_epoch=st.integers(0, 9)),
)
@example(times=[-1, -1], base_offset=7, settings=BatchSettings())
def test_a_row_is_that_of_a_segment_builder(
    times: list[int], base_offset: int, settings: BatchSettings
) -> None:
    """Goal: the row of a slice equals the row of a file with the same batch.

    Method: both are made of any batch, and compared column by column.
    """
    records = columns(["v"] * len(times), timestamps=times)
    (stream,) = encode(records, None, 1, np.array([base_offset]), settings)
    builder = SegmentBuilder(base_offset, 3)
    builder.append(stream.batches, min_timestamp=int(stream.min_timestamps.min()), data=stream.data)
    expected = builder.finish()[0].entry(base_offset, 5, "__shared/x.log")

    assert slice_entry(stream, 3, ("__shared/x.log", 70), settings, 5) == expected._replace(
        log_position=70
    )
