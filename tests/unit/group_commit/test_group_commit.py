"""Group commit: one commit for many requests, each with its own answer; keys land once."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.admin import AdminClient, NewTopic
from sparklog.author import who
from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import (
    CorruptMetadataError,
    FencedLeaderEpochError,
    InvalidOptionError,
    InvalidRecordError,
    LogDirError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    SparklogError,
    StorageFullError,
    UnknownTopicError,
)
from sparklog.group_commit.rows import Request, Rows, assigned_by_key, content_crc32c, ranks_of
from sparklog.group_commit.share import Counts, Outcome, Written
from sparklog.group_commit.writer import GroupWriter
from sparklog.log_writer import WriteOptions
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import PartitionState, Receipt, ReceiptKey, TopicEdit
from sparklog.metadata.turn import Turn
from sparklog.metadata.upkeep.fold import fold
from sparklog.model import OffsetRange
from sparklog.storage import open_files
from sparklog.storage.local import LocalFiles
from tests.failing import failing
from tests.logs import FOREVER, all_values, append, catalog, columns, fill, image
from tests.metadata_logs import lose_topic
from tests.unit.group_commit.conftest import rows

data = st.none() | st.binary(max_size=3)


class Writer(GroupWriter):
    """A writer that something happens to while it writes; counts the plans that it made again."""

    def __init__(self, log_dir: str) -> None:
        self.counts = Counts()
        clock = ManualClock(SystemClock().now_ms())  # its pauses take no time
        found = Catalog(open_files(log_dir), clock)
        super().__init__(found, WriteOptions(flush=False), self.counts)
        self.meanwhile: list[Callable[[], object]] = []

    def _written(self, *arguments: Any) -> Any:
        written = super()._written(*arguments)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return written

    def to(self, topic: str, *requests: Request) -> list[Any]:
        """The places that the requests to one topic got."""
        return places(self.write({topic: requests})[topic])


@pytest.fixture
def writer(log_dir: str) -> Writer:
    return Writer(log_dir)


def places(outcomes: Sequence[Outcome]) -> list[Any]:
    """Return [(partition, offset), …] of each request, or the kind of its error."""
    return [
        type(one)
        if isinstance(one, SparklogError)
        else list(zip(one.partition.tolist(), one.offset.tolist(), strict=True))
        for one in outcomes
    ]


class TestGroup:
    def test_gives_each_request_its_offsets(self, writer: Writer, log_dir: str) -> None:
        append(log_dir, 1, "xyz")
        found = writer.to(
            "t",
            Request(rows("a", "b", partition=1)),
            Request(rows("c", partition=0), "key"),
            Request(rows("d", partition=1)),
        )

        assert found == [[(1, 3), (1, 4)], [(0, 0)], [(1, 5)]]
        assert image(log_dir).version == 3

    def test_is_halved_until_the_refused_are_found(self, writer: Writer, log_dir: str) -> None:
        config = {**FOREVER, "max.message.bytes": "200"}
        AdminClient(log_dir).create_topics([NewTopic("small", 2, config)])
        found = writer.to(
            "small",
            Request(rows("a", partition=0)),
            Request(rows("x" * 300, partition=0)),
            Request(rows("b", partition=5)),
            Request(rows("c", partition=0), "k"),
        )

        assert found == [[(0, 0)], RecordTooLargeError, UnknownTopicError, [(0, 1)]]
        assert all_values(log_dir, "small") == ["a", "c"]

    def test_without_offsets_for_some_does_not_stop_the_others(
        self, writer: Writer, log_dir: str
    ) -> None:
        fill(log_dir, 2**63 - 2)
        texts = [("ab", 0), ("cc", 1), ("d", 0), ("e", 0)]
        found = writer.to("t", *(Request(rows(*text, partition=at)) for text, at in texts))

        full = OffsetOutOfRangeError
        assert found == [full, [(1, 0), (1, 1)], [(0, 2**63 - 2)], full]

    def test_to_a_topic_that_is_not_there(self, writer: Writer) -> None:
        assert writer.to("u", Request(rows("a"))) == [UnknownTopicError]

    def test_to_a_directory_that_is_no_log_dir(self, tmp_path: Path) -> None:
        assert Writer(str(tmp_path)).to("t", Request(rows("a"))) == [LogDirError]

    def test_is_sticky_from_group_to_group(self, writer: Writer) -> None:
        found = [writer.to("t", Request(rows(value))) for value in "ab"]

        assert [offset for (((_, offset),),) in found] == [0, 1]

    def test_of_a_topic_written_long_ago_begins_with_any_partition(
        self, writer: Writer, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.group_commit.writer.PARTITIONERS_MAX", 2)
        config = {**FOREVER, "sparklog.partitioner": "round-robin"}
        AdminClient(log_dir).create_topics([NewTopic(topic, 2, config) for topic in "abc"])
        found = [writer.to(topic, Request(rows("x"))) for topic in "abacab"]

        # b is anew when it comes back; a is not, because it was written after b.
        assert [partition for (((partition, _),),) in found] == [0, 0, 1, 0, 0, 0]

    def test_fails_as_a_whole_when_the_storage_does(
        self, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(LocalFiles, "create", failing(StorageFullError, "no space left"))
        found = writer.to("t", Request(rows("a")), Request(rows("b"), "k"))

        assert found == [StorageFullError, StorageFullError]

    def test_counts_commits_that_came_between(
        self, writer: Writer, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put = LocalFiles.put_new

        def others_first(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(LocalFiles, "put_new", put)
            for name in ("taken", "if_free"):  # the turn is the writer's
                monkeypatch.setattr(Turn, name, lambda *_: nullcontext(True))
            other = catalog(log_dir)
            other.commit(other.topic("t"), lambda _: raised(0, 7), operation="TEST")
            return put(*arguments, **options)

        monkeypatch.setattr(LocalFiles, "put_new", others_first)

        assert writer.to("t", Request(rows("a", partition=1))) == [[(1, 0)]]
        assert writer.counts.conflicts == 1


def raised(partition: int, epoch: int) -> TopicEdit:
    """A leader epoch that was raised, as an import does it."""
    return TopicEdit(partitions={partition: PartitionState(leader_epoch=epoch)})


class TestTopics:
    """One group to several topics."""

    @pytest.fixture(autouse=True)
    def more(self, log_dir: str) -> None:
        topics = [NewTopic(name, 2, FOREVER) for name in ("u", "v")]
        AdminClient(log_dir).create_topics(topics)

    def write(self, writer: Writer, *topics: str) -> list[Any]:
        """The offsets that one record each gets."""
        found = writer.write({topic: [Request(rows(topic, partition=0))] for topic in topics})
        return [places(found[topic]) for topic in topics]

    def test_is_one_entry(self, writer: Writer, log_dir: str) -> None:
        before = catalog(log_dir).image().version
        found = self.write(writer, "t", "u", "v")

        log = catalog(log_dir).log
        entry = log.entries.read(before + 1)
        assert found == [[[(0, 0)]]] * 3
        assert log.image().version == before + 1
        assert entry is not None
        assert entry.operation == "PRODUCE"
        assert {**entry.parameters, "bytes": ""} == {
            "topics": "t, u, v",
            "segments": "3",
            "records": "3",
            "bytes": "",
            "who": who(),
        }

    def test_is_the_same_when_it_is_too_large_for_one_table(
        self, writer: Writer, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.group_commit.share.TABLE_BYTES", 40)
        found = self.write(writer, "t", "u", "v")

        assert found == [[[(0, 0)]]] * 3
        assert [all_values(log_dir, topic) for topic in "tuv"] == [["t"], ["u"], ["v"]]

    def test_with_a_partitioner_that_is_not_there(self, log_dir: str) -> None:
        options = WriteOptions(partitioner="nowhere:at_all")
        writer = GroupWriter(catalog(log_dir), options, Counts())
        found = writer.write({topic: [Request(rows("a")), Request(rows("b"))] for topic in "tu"})

        assert [places(found[topic]) for topic in "tu"] == [[InvalidOptionError] * 2] * 2

    def test_is_written_without_the_topics_that_are_refused(
        self, writer: Writer, log_dir: str
    ) -> None:
        writer.meanwhile = [lambda: AdminClient(log_dir).delete_topics(["u"])]
        found = self.write(writer, "t", "u", "absent", "v")

        assert found == [[[(0, 0)]], [UnknownTopicError], [UnknownTopicError], [[(0, 0)]]]
        assert (all_values(log_dir), all_values(log_dir, "v")) == (["t"], ["v"])

    def test_is_written_without_the_topics_that_cannot_be_read(
        self, writer: Writer, log_dir: str
    ) -> None:
        fold(catalog(log_dir).log)
        lose_topic(writer._catalog, "u")
        found = self.write(writer, "t", "u", "absent", "v")

        assert found == [[[(0, 0)]], [CorruptMetadataError], [UnknownTopicError], [[(0, 0)]]]

    def test_is_told_what_the_log_says(
        self, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(LocalFiles, "put_new", failing(StorageFullError, "no space left"))

        assert self.write(writer, "t", "u") == [[StorageFullError]] * 2


class TestKeys:
    def test_land_once(self, writer: Writer, log_dir: str) -> None:
        request = Request(rows("a", "b", key=b"k"), "key")
        first = writer.to("t", request)
        group = writer.to("t", Request(rows("c", partition=0)), request)
        (again,) = Writer(log_dir).write({"t": [request]})["t"]

        assert first == places([again]) == group[1:]
        assert all_values(log_dir) == ["a", "b", "c"]
        assert isinstance(again, Written)
        assert again.replayed

    def test_that_land_elsewhere_meanwhile_leave_the_group(
        self, writer: Writer, log_dir: str
    ) -> None:
        request = Request(rows("a", "b", partition=2), "key")
        elsewhere: list[Any] = []
        writer.meanwhile = [lambda: elsewhere.extend(Writer(log_dir).to("t", request))]
        other = Request(rows("d", partition=2), "other")
        found = writer.to("t", Request(rows("c", partition=2)), request, other)

        assert elsewhere == [[(2, 0), (2, 1)]]
        assert found == [[(2, 2)], [(2, 0), (2, 1)], [(2, 3)]]
        assert all_values(log_dir) == ["a", "b", "c", "d"]

    @pytest.mark.parametrize(
        "other",
        [
            rows("a", partition=1),
            rows("a", "b", partition=0),
            rows("b", partition=0),
            rows("a", partition=0, key=b""),
        ],
    )
    def test_with_other_records_are_refused(self, writer: Writer, other: Rows) -> None:
        writer.to("t", Request(rows("a", partition=0), "k"))

        assert writer.to("t", Request(other, "k")) == [InvalidRecordError]

    def test_without_a_checksum_are_known_by_their_ranges(
        self, writer: Writer, log_dir: str
    ) -> None:
        found = catalog(log_dir)
        receipt = Receipt((OffsetRange(1, 5, 6),), 4)
        edit = TopicEdit(receipts={ReceiptKey("k"): receipt})
        found.commit(found.topic("t"), lambda _: edit, operation="TEST")

        assert writer.to("t", Request(rows("a", partition=1), "k")) == [[(1, 5)]]
        assert writer.to("t", Request(rows("a", partition=2), "k")) == [InvalidRecordError]
        assert writer.to("t", Request(rows("a", partition=9), "k")) == [UnknownTopicError]

    def test_with_partitions_that_were_not_there_are_other_records(self, writer: Writer) -> None:
        writer.to("t", Request(rows("a", partition=0), "k"))

        assert writer.to("t", Request(rows("a", partition=9), "k")) == [InvalidRecordError]


class TestContent:
    def of(self, **columns: Any) -> int:
        given = {"key": None, "value": None, "partition": None, "timestamp": None, "headers": None}
        return content_crc32c(Rows(**{name: [one] for name, one in (given | columns).items()}))

    def test_is_all_that_a_record_says(self) -> None:
        headers = [
            [{"key": "h", "value": None}],
            [{"key": "h", "value": b""}],
            [{"key": "", "value": b"h"}],
            [{"key": "h", "value": None}] * 2,
        ]
        found = [
            self.of(),
            *(self.of(**{name: data}) for name in ("key", "value") for data in (b"", b"a")),
            *(self.of(**{name: 0}) for name in ("partition", "timestamp")),
            *(self.of(headers=pairs) for pairs in headers),
        ]

        assert len(set(found)) == len(found)
        assert self.of(headers=[]) == self.of()

    @given(columns=st.lists(st.tuples(data, data), min_size=1, max_size=4), at=st.integers(0, 9))
    def test_is_where_it_stands(self, columns: list[tuple[Any, Any]], at: int) -> None:
        """Goal: bytes that move from a record or a column to the next are another content.

        Method: two contents are equal as lists exactly if their checksums are.
        """
        moved = [*columns[at % len(columns) :], *columns[: at % len(columns)]]
        sums = [
            content_crc32c(
                Rows(
                    key=[key for key, _ in one],
                    value=[value for _, value in one],
                    partition=[None] * len(one),
                    timestamp=[None] * len(one),
                    headers=[None] * len(one),
                )
            )
            for one in (columns, moved)
        ]

        assert (sums[0] == sums[1]) is (columns == moved)


class TestImportInBetween:
    def fence(self, log_dir: str, epoch: int) -> None:
        found = catalog(log_dir)
        found.commit(found.topic("t"), lambda _: raised(0, epoch), operation="TEST")

    def test_is_planned_again(self, writer: Writer, log_dir: str) -> None:
        writer.meanwhile = [lambda: self.fence(log_dir, 5)]

        assert writer.to("t", Request(rows("a", partition=0))) == [[(0, 0)]]

    def test_is_told_when_it_goes_on(self, writer: Writer, log_dir: str) -> None:
        writer.meanwhile = [
            lambda epoch=epoch: self.fence(log_dir, epoch)  # type: ignore[misc] # bound now
            for epoch in (5, 6, 7)
        ]

        assert writer.to("t", Request(rows("a", partition=0))) == [FencedLeaderEpochError]


class TestAssignedByKey:
    @pytest.mark.parametrize(
        ("name", "is_by_key"),
        [("default", True), ("round-robin", False), ("uniform-sticky", False)],
    )
    def test_is_the_same_for_the_same_records(self, name: str, is_by_key: bool) -> None:
        records = columns("abc", keys=["x", None, "idempotency"])
        found = assigned_by_key(name, "idempotency", records, 1000).tolist()

        assert found[1] == found[2]
        assert (found[0] != found[1]) is is_by_key

    def test_asks_a_function(self) -> None:
        found = assigned_by_key(f"{__name__}:last", "k", columns("abc"), 7)

        assert found.tolist() == [6, 6, 6]


def last(key: Any, _: Any, num_partitions: int) -> list[int]:
    return [num_partitions - 1] * len(key)


def test_ranks_count_earlier_rows_of_the_partition() -> None:
    assert ranks_of(np.array([2, 0, 2, 2, 0], np.int32), 3).tolist() == [0, 0, 1, 2, 1]
