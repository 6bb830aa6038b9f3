"""Groups: one commit for many requests, each with its own answer; keys land once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from api.errors import ApiError
from api.group import Groups
from api.group_rows import KeyedPartitioner, ranks_of
from api.group_write import GroupWriter, Outcome, Written
from api.metrics import Metrics
from api.records import Rows
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.errors import (
    FencedLeaderEpochError,
    InvalidRecordError,
    RecordTooLargeError,
    SparklogError,
    StorageFullError,
    UnknownTopicError,
)
from sparklog.log_writer import WriteOptions
from sparklog.metadata.edit import PartitionState, TopicEdit
from sparklog.storage.local import LocalFiles
from tests.api.conftest import FOREVER, settings_for
from tests.logs import all_values, append, catalog, columns, image


def rows(*values: str, partition: int | None = None, key: bytes | None = None) -> Rows:
    count = len(values)
    return Rows(
        key=[key] * count,
        value=[value.encode() for value in values],
        partition=[partition] * count,
        timestamp=[None] * count,
        headers=[None] * count,
    )


class Writer(GroupWriter):
    """A writer that something happens to while it writes; counts what it had to do again."""

    def __init__(self, log_dir: str) -> None:
        self.conflicts = 0
        super().__init__(catalog(log_dir), WriteOptions(flush=False), self._count)
        self.meanwhile: list[Callable[[], object]] = []

    def _count(self) -> None:
        self.conflicts += 1

    def _segments(self, *arguments: Any) -> Any:
        written = super()._segments(*arguments)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return written


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
        group = [
            (rows("a", "b", partition=1), None),
            (rows("c", partition=0), "key"),
            (rows("d", partition=1), None),
        ]
        found = places(writer.write("t", group))

        assert found == [[(1, 3), (1, 4)], [(0, 0)], [(1, 5)]]
        assert image(log_dir).version == 2

    def test_is_halved_until_the_refused_are_found(self, writer: Writer, log_dir: str) -> None:
        config = {**FOREVER, "max.message.bytes": "200"}
        AdminClient(log_dir).create_topics([NewTopic("small", 2, config)])
        large = rows("x" * 300, partition=0)
        group = [(rows("a", partition=0), None), (large, None), (rows("b", partition=5), None)]
        found = places(writer.write("small", [*group, (rows("c", partition=0), "k")]))

        assert found == [[(0, 0)], RecordTooLargeError, UnknownTopicError, [(0, 1)]]
        assert all_values(log_dir, "small") == ["a", "c"]

    def test_to_a_topic_that_is_not_there(self, writer: Writer) -> None:
        assert places(writer.write("u", [(rows("a"), None)])) == [UnknownTopicError]

    def test_is_sticky_from_group_to_group(self, writer: Writer) -> None:
        found = places(
            writer.write("t", [(rows("a"), None)]) + writer.write("t", [(rows("b"), None)])
        )

        assert [offset for one in found for _, offset in one] == [0, 1]

    def test_fails_as_a_whole_when_the_storage_does(
        self, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise StorageFullError("no space left")

        monkeypatch.setattr(LocalFiles, "create", full)
        found = places(writer.write("t", [(rows("a"), None), (rows("b"), "k")]))

        assert found == [StorageFullError, StorageFullError]

    def test_counts_commits_that_came_between(self, writer: Writer, log_dir: str) -> None:
        store = writer._catalog.store(writer._catalog.topic("t"))
        original = store._try  # type: ignore[attr-defined] # the store of a local log dir

        def others_first(*arguments: Any) -> Any:
            store._try = original  # type: ignore[attr-defined] # as above
            append(log_dir, 0, "x")
            return original(*arguments)

        store._try = others_first  # type: ignore[attr-defined] # as above

        assert places(writer.write("t", [(rows("a", partition=0), None)])) == [[(0, 1)]]
        assert writer.conflicts == 1


class TestKeys:
    def test_land_once(self, writer: Writer, log_dir: str) -> None:
        request = (rows("a", "b", key=b"k"), "key")
        first = writer.write("t", [request])
        group = writer.write("t", [(rows("c", partition=0), None), request])
        again = Writer(log_dir).write("t", [request])

        assert places(first) == places(again) == places(group[1:])
        assert all_values(log_dir) == ["a", "b", "c"]
        assert [one.replayed for one in again if isinstance(one, Written)] == [True]

    def test_that_land_elsewhere_meanwhile_leave_the_group(
        self, writer: Writer, log_dir: str
    ) -> None:
        request = (rows("a", "b", partition=2), "key")
        elsewhere: list[Outcome] = []
        writer.meanwhile = [lambda: elsewhere.extend(Writer(log_dir).write("t", [request]))]
        group = [(rows("c", partition=2), None), request, (rows("d", partition=2), "other")]
        found = places(writer.write("t", group))

        assert places(elsewhere) == [[(2, 0), (2, 1)]]
        assert found == [[(2, 2)], [(2, 0), (2, 1)], [(2, 3)]]
        assert all_values(log_dir) == ["a", "b", "c", "d"]

    def test_with_other_records_are_refused(self, writer: Writer) -> None:
        writer.write("t", [(rows("a", partition=0), "k")])

        found = [
            places(writer.write("t", [(other, "k")]))
            for other in (rows("a", partition=1), rows("a", "b", partition=0))
        ]
        assert found == [[InvalidRecordError]] * 2

    def test_with_partitions_that_were_not_there_are_refused(self, writer: Writer) -> None:
        writer.write("t", [(rows("a", partition=0), "k")])

        assert places(writer.write("t", [(rows("a", partition=9), "k")])) == [UnknownTopicError]


class TestImportInBetween:
    def fence(self, log_dir: str, epoch: int) -> None:
        found = catalog(log_dir)
        state = PartitionState(leader_epoch=epoch)
        found.commit(found.topic("t"), lambda _: TopicEdit(partitions={0: state}), operation="TEST")

    def test_is_planned_again(self, writer: Writer, log_dir: str) -> None:
        writer.meanwhile = [lambda: self.fence(log_dir, 5)]

        assert places(writer.write("t", [(rows("a", partition=0), None)])) == [[(0, 0)]]

    def test_is_told_when_it_goes_on(self, writer: Writer, log_dir: str) -> None:
        writer.meanwhile = [
            lambda epoch=epoch: self.fence(log_dir, epoch)  # type: ignore[misc] # bound now
            for epoch in (5, 6, 7)
        ]
        found = places(writer.write("t", [(rows("a", partition=0), None)]))

        assert found == [FencedLeaderEpochError]


def test_over_an_object_store_nothing_is_read_ahead(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalFiles, "is_local", False)
    monkeypatch.setattr(writer, "_planned", lambda _: pytest.fail("the next group asks again"))

    writer.catch_up("t")


class TestKeyedPartitioner:
    @pytest.mark.parametrize(
        ("name", "is_by_key"),
        [("default", True), ("round-robin", False), ("uniform-sticky", False)],
    )
    def test_is_the_same_for_the_same_records(self, name: str, is_by_key: bool) -> None:
        records = columns("abc", keys=["x", None, "idempotency"])
        found = KeyedPartitioner(name, "idempotency").assign(records, 1000).tolist()

        assert found[1] == found[2]
        assert (found[0] != found[1]) is is_by_key

    def test_asks_a_function(self) -> None:
        found = KeyedPartitioner("tests.api.test_group:last", "k").assign(columns("abc"), 7)

        assert found.tolist() == [6, 6, 6]


def last(key: Any, _: Any, num_partitions: int) -> list[int]:
    return [num_partitions - 1] * len(key)


def test_ranks_count_earlier_rows_of_the_partition() -> None:
    assert ranks_of(np.array([2, 0, 2, 2, 0], np.int32), 3).tolist() == [0, 0, 1, 2, 1]


class TestGroups:
    def run(self, log_dir: str, work: Callable[[Groups], Any], **values: int) -> Any:
        async def main() -> Any:
            settings = settings_for(log_dir, **values)
            groups = Groups(LocalFiles(log_dir), SystemClock(), settings, Metrics(dict))
            try:
                return await work(groups)
            finally:
                await groups.close()

        return asyncio.run(main())

    def test_requests_that_linger_share_a_commit(self, log_dir: str) -> None:
        async def work(groups: Groups) -> Any:
            requests = [groups.produce("t", rows(str(n), partition=0), None) for n in range(20)]
            return await asyncio.gather(*requests)

        found = self.run(log_dir, work, linger_ms=50)

        assert sorted(one.offset[0] for one in found) == list(range(20))
        assert image(log_dir).version == 1

    def test_those_who_come_again_share_the_next_one(self, log_dir: str) -> None:
        async def twice(groups: Groups) -> None:
            for value in "ab":
                await groups.produce("t", rows(value, partition=0), None)

        async def work(groups: Groups) -> None:
            await asyncio.gather(*(twice(groups) for _ in range(5)))

        self.run(log_dir, work, linger_ms=50)

        assert image(log_dir).version == 2

    def test_who_was_just_answered_goes_with_those_who_waited(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write, late, hours = Groups.write, list[asyncio.Task[Written]](), [0]

        async def slowly(groups: Groups, *arguments: Any) -> Any:
            if not hours[0]:
                late.append(asyncio.create_task(groups.produce("t", rows("b", partition=0), None)))
            answers = await write(groups, *arguments)
            hours[0] += 1
            return answers

        async def work(groups: Groups) -> None:
            loop = asyncio.get_running_loop()
            time = loop.time
            monkeypatch.setattr(loop, "time", lambda: time() + 3600 * hours[0])
            monkeypatch.setattr(Groups, "write", slowly)
            await groups.produce("t", rows("a", partition=0), None)
            for _ in range(10):
                await asyncio.sleep(0)
            await groups.produce("t", rows("c", partition=0), None)
            await late[0]

        self.run(log_dir, work, linger_ms=100)

        assert image(log_dir).version == 2

    def test_a_full_group_does_not_linger(self, log_dir: str) -> None:
        async def work(groups: Groups) -> Any:
            requests = [groups.produce("t", rows("x" * 60, partition=0), None) for _ in range(4)]
            return await asyncio.gather(*requests)

        self.run(log_dir, work, linger_ms=10_000, batch_size=100)

        assert image(log_dir).version == 2

    def test_what_one_group_committed_is_read_before_the_next(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catch_up, caught_up = GroupWriter.catch_up, list[int]()

        def noted(writer: GroupWriter, topic: str) -> None:
            catch_up(writer, topic)
            caught_up.append(image(log_dir).version)

        async def work(groups: Groups) -> None:
            monkeypatch.setattr(GroupWriter, "catch_up", noted)
            for value in "ab":
                await groups.produce("t", rows(value), None)

        self.run(log_dir, work)

        assert caught_up == [1, 2]

    @pytest.mark.parametrize("error", (UnknownTopicError, RuntimeError))
    def test_what_is_in_the_way_of_that_stops_nobody(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
    ) -> None:
        catch_up, planned = GroupWriter.catch_up, GroupWriter._planned

        def fail(*_: object) -> Any:
            raise error("in the way")

        def failing(writer: GroupWriter, topic: str) -> None:
            monkeypatch.setattr(GroupWriter, "_planned", fail)
            catch_up(writer, topic)
            monkeypatch.setattr(GroupWriter, "_planned", planned)

        async def work(groups: Groups) -> None:
            monkeypatch.setattr(GroupWriter, "catch_up", failing)
            for value in "ab":
                await groups.produce("t", rows(value), None)

        self.run(log_dir, work)

        assert sorted(all_values(log_dir)) == ["a", "b"]

    def test_the_same_key_at_the_same_time_lands_once(self, log_dir: str) -> None:
        async def work(groups: Groups) -> Any:
            requests = [groups.produce("t", rows("a"), "k") for _ in range(3)]
            return await asyncio.gather(*requests)

        found = self.run(log_dir, work)

        assert len({(one.partition[0], one.offset[0]) for one in found}) == 1
        assert all_values(log_dir) == ["a"]

    def test_a_key_that_waited_for_itself_goes_with_those_who_wait(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write, sizes = Groups.write, list[int]()

        async def counted(groups: Groups, topic: str, group: Sequence[Any]) -> Any:
            sizes.append(len(group))
            return await write(groups, topic, group)

        async def at_once(*_: object) -> None:
            pass

        async def work(groups: Groups) -> None:
            monkeypatch.setattr(Groups, "write", counted)
            monkeypatch.setattr(Groups, "catch_up", at_once)
            first = asyncio.create_task(groups.produce("t", rows("a"), "k"))
            again = asyncio.create_task(groups.produce("t", rows("a"), "k"))
            await first
            await asyncio.gather(groups.produce("t", rows("b"), None), again)

        self.run(log_dir, work, linger_ms=200)

        assert sizes == [1, 2]
        assert sorted(all_values(log_dir)) == ["a", "b"]

    def test_topics_for_which_nothing_waits_are_forgotten(self, log_dir: str) -> None:
        async def work(groups: Groups) -> None:
            requests = [groups.produce(topic, rows("a"), None) for topic in ("t", "absent")]
            await asyncio.gather(*requests, return_exceptions=True)
            await groups.close()

            assert groups._topics == {}

        self.run(log_dir, work)

    def test_too_much_is_throttled(self, log_dir: str) -> None:
        async def work(groups: Groups) -> Any:
            requests = [groups.produce("t", rows("x" * 60), None) for _ in range(3)]
            return await asyncio.gather(*requests, return_exceptions=True)

        found = self.run(log_dir, work, max_pending_bytes=160)

        (refused,) = [one for one in found if isinstance(one, ApiError)]
        assert (refused.status, refused.error_code) == (429, 42901)

    def test_closing_commits_what_waits(self, log_dir: str) -> None:
        async def work(groups: Groups) -> None:
            waiting = asyncio.create_task(groups.produce("t", rows("a"), None))
            await asyncio.sleep(0)
            waiting.cancel()

        self.run(log_dir, work, linger_ms=10_000)

        assert all_values(log_dir) == ["a"]

    def test_an_unexpected_error_is_everybodys(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("unexpected")

        async def work(groups: Groups) -> Any:
            monkeypatch.setattr(GroupWriter, "write", fail)
            requests = [groups.produce("t", rows("a"), key) for key in (None, "k")]
            return await asyncio.gather(*requests, return_exceptions=True)

        assert [str(one) for one in self.run(log_dir, work)] == ["unexpected"] * 2
