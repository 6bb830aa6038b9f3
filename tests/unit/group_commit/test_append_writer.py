"""A group of client batches: one shared segment, one entry, an answer for each batch."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import (
    CorruptRecordError,
    FencedLeaderEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OffsetOutOfRangeError,
    StorageFullError,
    UnknownTopicError,
)
from sparklog.group_commit.admission import Admission
from sparklog.group_commit.append_slots import Append, AppendCounts, Appended, Checked, Slot
from sparklog.group_commit.append_topics import Target, TopicAppends
from sparklog.group_commit.failed_firsts import FailedFirsts
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_writer import shared_segment
from sparklog.log_writer.plan import WriteOptions
from sparklog.metadata.state.edit import NO_STAMP, PartitionState, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.metadata.state.transactions import NO_TRANSACTIONAL_IDS
from sparklog.metadata.turn import Turn
from sparklog.model import Codec, TopicDescription
from sparklog.record.checksum import crc32c
from sparklog.record.client_batch import check_client_batch
from sparklog.record.scan import scan_batches
from sparklog.storage.files import flat_view
from sparklog.storage.local import LocalFiles
from tests.appends import Appender, told
from tests.client_batches import NOW_MS, client_batch
from tests.failing import failing
from tests.logs import FOREVER, OWN_FILES, append, catalog, fill, image, log_files, rows, values
from tests.tracing import TracingFiles


def raise_epoch(log_dir: str) -> None:
    """Raise a leader epoch, as an import does it."""
    found = catalog(log_dir)

    def plan(topic: TopicImage) -> TopicEdit:
        epoch = topic.partition(0).leader_epoch + 1
        return TopicEdit(partitions={0: PartitionState(leader_epoch=epoch)})

    found.commit(found.topic("t"), plan, operation="TEST")


@pytest.fixture
def world(log_dir: str) -> Appender:
    """The topic t of 4 partitions, and u of 2."""
    AdminClient(log_dir).create_topics([NewTopic("u", 2, FOREVER)])
    return Appender(log_dir)


class TestLeaderEpoch:
    def appended(self, world: Appender, *epochs: int) -> list[Any]:
        """The outcomes of batches to t-0, each of which asks for a leader epoch."""
        topic_id = world.topic_id("t")
        slots = [Slot(Append(topic_id, 0, client_batch("a"), epoch)) for epoch in epochs]
        world.writer.write(slots)
        return [told(slot.outcome) for slot in slots if slot.outcome is not None]

    def test_the_batch_of_an_older_one_is_refused_alone(
        self, world: Appender, log_dir: str
    ) -> None:
        assert self.appended(world, 0) == [0]
        raise_epoch(log_dir)
        assert self.appended(world, 0, 1) == [FencedLeaderEpochError, 1]

    def test_one_that_is_claimed_while_it_is_written_is_refused(
        self, world: Appender, log_dir: str
    ) -> None:
        world.meanwhile = [lambda: raise_epoch(log_dir)]
        assert self.appended(world, 0) == [FencedLeaderEpochError]


class TestGroup:
    def test_gives_each_batch_its_offset(self, world: Appender, log_dir: str) -> None:
        append(log_dir, 1, "xyz")
        found = world.append(
            ("t", 1, client_batch("a", "b")),
            ("u", 0, client_batch("c")),
            ("t", 1, client_batch("d", codec=Codec.LZ4)),
            ("t", 0, client_batch("e")),
        )

        assert found == [3, 0, 5, 0]
        assert values(log_dir) == {0: ["e"], 1: ["x", "y", "z", "a", "b", "d"]}
        assert values(log_dir, "u") == {0: ["c"]}

    def test_of_large_batches_is_written_batch_by_batch(
        self, world: Appender, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared_segment, "ALONE_BYTES", 1)
        found = world.append(*[("t", number % 2, client_batch("a", "b")) for number in range(4)])

        assert found == [0, 0, 2, 2]
        assert values(log_dir) == {0: ["a", "b"] * 2, 1: ["a", "b"] * 2}
        for row in (one for number in (0, 1) for one in image(log_dir).partition(number).entries()):
            at = slice(row.log_position, row.log_position + row.log_bytes)
            assert row.log_crc32c == crc32c((Path(log_dir) / row.log_path).read_bytes()[at])

    def test_is_one_entry_and_one_file(self, world: Appender, log_dir: str) -> None:
        version = image(log_dir).version
        world.append(*[(name, 0, client_batch("a")) for name in "tut"])

        assert image(log_dir).version == version + 2  # u was made in between
        assert (
            len({e.log_path for name in "tu" for e in image(log_dir, name).partition(0).entries()})
            == 1
        )

    def test_numbers_batches_where_they_will_lie(self, world: Appender, log_dir: str) -> None:
        world.append(("t", 0, client_batch("a")), ("t", 0, client_batch("b")))
        world.append(("t", 0, client_batch("c")))

        assert [entry.shift for entry in image(log_dir).partition(0).entries()] == [0, 0]

    def test_tells_where_the_log_begins(self, world: Appender, log_dir: str) -> None:
        append(log_dir, 0, "xyz")
        AdminClient(log_dir).delete_records({("t", 0): 2})

        assert world.outcomes(("t", 0, client_batch("a"))) == [Appended(3, -1, 2)]

    def test_tells_the_time_of_the_append(self, world: Appender, log_dir: str) -> None:
        config = {**FOREVER, "message.timestamp.type": "LogAppendTime"}
        AdminClient(log_dir).create_topics([NewTopic("timed", 1, config)])

        assert world.outcomes(("timed", 0, client_batch("a", times=[5]))) == [
            Appended(0, NOW_MS, 0)
        ]
        assert [row.timestamp for row in rows(log_dir, "timed")[0]] == [NOW_MS]

    def test_is_counted(self, world: Appender) -> None:
        batch = client_batch("a", "b")
        world.append(("t", 0, batch), ("t", 1, batch), ("t", 9, batch))
        world.append(("x", 0, batch))

        assert world.counts == AppendCounts(batches=2, records=4, bytes=2 * len(batch), commits=1)


class TestDurable:
    """The disk syncs a group while its edit is made; no entry names what is not on the disk."""

    def test_before_the_entry(self, log_dir: str) -> None:
        files = TracingFiles(LocalFiles(log_dir))
        world = Appender(log_dir, files, flush=True)
        files.trace.clear()

        world.append(("t", 0, client_batch("a")), ("t", 1, client_batch("b")))

        kinds = [one.kind for one in files.trace if one.kind not in ("list", "read", "stat")]
        assert kinds == ["create", "write", "expose", "sync", "put_new", "sync_directory"]

    def test_or_nothing_lands(self, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
        world = Appender(log_dir, flush=True)
        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "sync", lambda *_: raised(StorageFullError("full")))
            assert world.append(("t", 0, client_batch("a"))) == [StorageFullError]

        assert world.append(("t", 0, client_batch("b"))) == [0]
        assert values(log_dir) == {0: ["b"]}


def raised(error: Exception) -> None:
    raise error


class TestRefused:
    def test_batches_do_not_stop_the_others(self, world: Appender, log_dir: str) -> None:
        found = world.append(
            ("t", 0, client_batch("a")),
            ("t", 0, client_batch("b", base_offset=1)),
            ("t", 0, client_batch("c")[:-1] + b"!"),
            ("t", 4, client_batch("d")),
            ("unknown", 0, client_batch("e")),
            ("t", 0, client_batch("f")),
        )

        assert found == [
            0, InvalidRecordError, CorruptRecordError, UnknownTopicError, UnknownTopicError, 1
        ]  # fmt: skip
        assert values(log_dir) == {0: ["a", "f"]}

    def test_batches_for_which_the_log_has_no_offsets(self, world: Appender, log_dir: str) -> None:
        fill(log_dir, 2**63 - 3)
        texts = ["abc", "d", "e", "f"]

        outcomes = world.append(
            *(("t", 0, client_batch(*text)) for text in texts), ("u", 0, client_batch("g"))
        )
        assert outcomes == [
            OffsetOutOfRangeError, 2**63 - 3, 2**63 - 2, OffsetOutOfRangeError, 0
        ]  # fmt: skip

    def test_transactional_batches(self, world: Appender) -> None:
        batch = client_batch("a", attributes=16, producer_id=1, base_sequence=0)

        assert world.append(("t", 0, batch)) == [InvalidTxnStateError]

    def test_a_topic_that_is_deleted_while_it_is_written(
        self, world: Appender, log_dir: str
    ) -> None:
        world.meanwhile = [lambda: AdminClient(log_dir).delete_topics(["u"])]

        found = world.append(("u", 0, client_batch("a")), ("t", 0, client_batch("b")))

        assert found == [UnknownTopicError, 0]

    def test_only_deleted_topics(self, world: Appender, log_dir: str) -> None:
        world.meanwhile = [lambda: AdminClient(log_dir).delete_topics(["u"])]

        assert world.append(("u", 0, client_batch("a"))) == [UnknownTopicError]
        assert world.counts.commits == 0

    def test_all_when_the_disk_is_full(
        self, world: Appender, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        version = image(log_dir).version
        monkeypatch.setattr(LocalFiles, "create", failing(StorageFullError, "no space left"))

        found = world.append(("t", 0, client_batch("a")), ("t", 9, client_batch("b")))

        assert found == [StorageFullError, UnknownTopicError]
        assert image(log_dir).version == version


class TestRaces:
    def test_somebody_else_appends_meanwhile(self, world: Appender, log_dir: str) -> None:
        world.meanwhile = [lambda: append(log_dir, 0, "xy")]

        found = world.append(("t", 0, client_batch("a")), ("t", 0, client_batch("b")))

        assert found == [2, 3]
        assert values(log_dir) == {0: ["x", "y", "a", "b"]}
        assert [entry.shift for entry in image(log_dir).partition(0).entries()] == [0, 2]

    def test_an_import_comes_between(self, world: Appender, log_dir: str) -> None:
        world.meanwhile = [lambda: raise_epoch(log_dir)]

        assert world.append(("t", 0, client_batch("a"))) == [0]
        assert [entry.max_leader_epoch for entry in image(log_dir).partition(0).entries()] == [1]

    def test_imports_come_again_and_again(self, world: Appender, log_dir: str) -> None:
        world.meanwhile = [lambda: raise_epoch(log_dir)] * 3

        assert world.append(("t", 0, client_batch("a"))) == [FencedLeaderEpochError]

    def test_a_lost_try_is_counted(
        self, world: Appender, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put = LocalFiles.put_new

        def others_first(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(LocalFiles, "put_new", put)
            monkeypatch.setattr(Turn, "taken", lambda *_: nullcontext(True))  # it is the writer's
            append(log_dir, 0, "x")
            return put(*arguments, **options)

        monkeypatch.setattr(LocalFiles, "put_new", others_first)

        assert world.append(("t", 0, client_batch("a"))) == [1]
        assert world.counts.conflicts == 1


class TestLarge:
    def test_partitions_get_segments_of_their_own(self, log_dir: str) -> None:
        AdminClient(log_dir).create_topics([NewTopic("own", 2, {**FOREVER, **OWN_FILES})])
        world = Appender(log_dir)

        found = world.append(
            ("own", 1, client_batch("a", "b")),
            ("t", 0, client_batch("c")),
            ("own", 1, client_batch("d")),
        )

        assert found == [0, 0, 2]
        assert values(log_dir, "own") == {1: ["a", "b", "d"]}
        assert len(log_files(log_dir)) == 1

    def test_segments_roll(self, log_dir: str) -> None:
        config = {**FOREVER, **OWN_FILES, "segment.bytes": str(2**20)}
        AdminClient(log_dir).create_topics([NewTopic("rolls", 1, config)])
        world = Appender(log_dir)

        batch = client_batch("a" * 400_000)

        assert world.append(*[("rolls", 0, batch)] * 3) == [0, 1, 2]
        assert len(log_files(log_dir)) == 2

    def test_a_failed_write_leaves_nothing(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        AdminClient(log_dir).create_topics([NewTopic("own", 1, {**FOREVER, **OWN_FILES})])
        world = Appender(log_dir)

        monkeypatch.setattr(
            "sparklog.log_writer.topic_writer.TopicWriter.close",
            failing(StorageFullError, "no space left"),
        )

        assert world.append(("own", 0, client_batch("a"))) == [StorageFullError]
        assert values(log_dir, "own") == {}


@given(
    batches=st.lists(
        st.builds(
            client_batch,
            st.text(max_size=3),
            st.text(max_size=3),
            times=st.tuples(st.integers(-1, NOW_MS), st.integers(-1, NOW_MS)),
            codec=st.sampled_from([Codec.NONE, Codec.GZIP]),
        ),
        min_size=1,
        max_size=4,
    ),
    end_offset=st.integers(0, 2**40),
)
@example(batches=2 * [client_batch("a", "b", times=(-1, -1))], end_offset=7)
def test_a_row_is_that_of_a_segment_builder(batches: list[bytes], end_offset: int) -> None:
    """Goal: the row of a slice equals the row of a file with the same batches.

    Method: both are made of any batches, and compared column by column.
    """
    topic = TopicImage(TopicDescription("t", "id", 1, {}, 0), 0)
    grown = topic.apply(TopicEdit(partitions={0: PartitionState(0, end_offset)}), NO_STAMP)
    target = Target.of(grown, NOW_MS, WriteOptions())
    checked = [
        Checked(Slot(Append("id", 0, one)), check_client_batch(one, target.config, NOW_MS, 13))
        for one in batches
    ]
    admission = Admission(NO_TRANSACTIONAL_IDS, FailedFirsts())
    (partition,) = TopicAppends(target, checked, admission).partitions
    data = b"".join(map(flat_view, partition.pieces))
    partition.lie_at("__shared/x.log", 70, 5)
    partition.place(grown.partition(0), Admission(NO_TRANSACTIONAL_IDS, FailedFirsts()))
    builder = SegmentBuilder(end_offset, 0)
    least = min(batch.min_timestamp for _, batch in checked)
    builder.append(scan_batches(data).batches, min_timestamp=least, data=data)
    expected = builder.finish()[0].entry(end_offset, 5, "__shared/x.log")

    assert partition.rows == [expected._replace(log_position=70)]
