"""Requests of clients wait, share a commit, and are answered in full."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any

import pytest

import sparklog.group_commit as package
from sparklog.errors import InvalidRecordError, StorageFullError
from sparklog.group_commit.append_slots import Append, Appended
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.group_commit.appends import MANY_REQUESTS, AppendCommit, AppendLimits
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.image import Image
from sparklog.model import Codec
from tests.client_batches import client_batch
from tests.logs import catalog, image, values

A, B = client_batch("a"), client_batch("b")


class World:
    """An instance in an event loop, and the requests to the topic t."""

    def __init__(self, found: Catalog, **limits: Any) -> None:
        self.commit = AppendCommit(found, AppendLimits(**{"flush": False, **limits}))
        self.topic_id = found.topic("t").topic_id
        self.images: list[Image] = []
        self.commit.on_commit = self.images.append

    def send(self, *batches: bytes, partition: int = 0, **options: Any) -> asyncio.Future[Any]:
        """One request with these batches for one partition."""
        return self.commit.append(
            [Append(self.topic_id, partition, one) for one in batches], **options
        )

    async def join(self, count: int, *, slowly: bool = False) -> int:
        """Have so many requests join a batch, at once or in turns of the loop; return how many did.

        None can join any more when the batch is made.
        """

        def made() -> Append:
            joined.append(True)
            return Append(self.topic_id, 0, A)

        joined: list[bool] = []
        answer = self.commit.append_when_taken(made)
        for number in range(1, count):
            if slowly:
                await asyncio.sleep(0)
            if joined:
                return number
            self.commit.grew()
        await answer
        return count

    async def begun(self) -> None:
        """Wait until the groups of all requests have begun."""
        while self.commit._waiting:
            await asyncio.sleep(0)

    @property
    def commits(self) -> int:
        """How many commits have landed."""
        return self.commit.counts.commits


def run(found: Catalog, work: Callable[[World], Awaitable[Any]], **limits: Any) -> Any:
    """What the work returns, once all is committed."""

    async def main() -> Any:
        world = World(found, **limits)
        try:
            return await work(world)
        finally:
            await world.commit.close()

    return asyncio.run(main())


def broken(*_: object) -> None:
    """Fails whatever it gets."""
    raise ZeroDivisionError


class TestGroup:
    def test_requests_that_come_together_share_a_commit(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            found = await asyncio.gather(
                world.send(A), world.send(B, A), world.send(B, partition=1)
            )
            return found, world.commits

        found, commits = run(catalog(log_dir), work)

        assert found == [[Appended(0, -1, 0)], [Appended(1, -1, 0), Appended(2, -1, 0)],
                         [Appended(0, -1, 0)]]  # fmt: skip
        assert commits == 1
        assert values(log_dir) == {0: ["a", "b", "a"], 1: ["b"]}

    def test_requests_that_come_meanwhile_are_the_next_one(self, log_dir: str) -> None:
        async def work(world: World) -> int:
            first = world.send(A)
            await world.begun()
            await asyncio.gather(first, world.send(B), world.send(B))
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=0) == 2
        assert values(log_dir) == {0: ["a", "b", "b"]}

    def test_those_who_come_again_share_the_next_one(self, log_dir: str) -> None:
        async def twice(world: World) -> None:
            for batch in (A, B):
                await world.send(batch)

        async def work(world: World) -> int:
            await asyncio.gather(*(twice(world) for _ in range(5)))
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=60_000) == 2

    def test_clients_that_take_turns_share_the_next_one(self, log_dir: str) -> None:
        async def twice(world: World) -> None:
            for batch in (A, B):
                await world.send(batch)

        async def work(world: World) -> int:
            first = asyncio.create_task(twice(world))
            await asyncio.sleep(0)
            await world.begun()
            await asyncio.gather(first, twice(world))
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=60_000) == 3

    def test_after_one_that_waited_in_vain_waits_for_no_others(self, log_dir: str) -> None:
        async def work(world: World) -> int:
            world.send(A)
            await world.begun()
            second = world.send(A)
            await world.begun()
            third = world.send(A)
            await second
            await asyncio.gather(third, world.send(A))
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=60_000) == 4

    def test_what_a_client_of_the_last_one_sent_ahead_is_not_waited_for(self, log_dir: str) -> None:
        async def work(world: World) -> int:
            first = world.send(A, client="c")
            await world.begun()
            second = world.send(A, client="c")
            await first
            await asyncio.gather(second, world.send(A, client="c"))
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=60_000) == 3

    def test_waits_for_those_who_stay_away_no_longer_than_the_commit_took(
        self, log_dir: str
    ) -> None:
        async def work(world: World) -> int:
            await asyncio.gather(world.send(A), world.send(A))
            await world.send(B)
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=60_000) == 2

    def test_one_that_grows_is_made_when_the_group_begins(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            def made() -> Append:
                return Append(world.topic_id, 0, client_batch(*texts))

            texts = ["a"]
            first = world.commit.append_when_taken(made)
            texts.append("b")
            world.commit.grew()
            await first
            return await first, world.commits

        found, commits = run(catalog(log_dir), work)

        assert (found, commits) == ([Appended(0, -1, 0)], 1)
        assert values(log_dir) == {0: ["a", "b"]}

    def test_one_that_cannot_be_made_costs_no_other(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            def cannot() -> Append:
                raise ZeroDivisionError

            refused = world.commit.append_when_taken(cannot)
            outcomes = await world.send(A)
            with pytest.raises(ZeroDivisionError):
                await refused
            return outcomes

        assert [one.base_offset for one in run(catalog(log_dir), work)] == [0]

    def test_those_who_join_one_that_grows_are_waited_for(self, log_dir: str) -> None:
        async def work(world: World) -> int:
            for _ in range(2):
                answer = world.commit.append_when_taken(lambda: Append(world.topic_id, 0, A))
                for _ in range(3):
                    world.commit.grew()
                    await asyncio.sleep(0)
                await answer
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=60_000) == 2

    def test_where_many_join_others_are_waited_for(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def work(world: World) -> int:
            await world.join(MANY_REQUESTS)
            return await world.join(MANY_REQUESTS, slowly=True)

        monkeypatch.setattr("sparklog.group_commit.appends.GROWING_LINGER_S", 60)

        assert run(catalog(log_dir), work, linger_ms=0) == MANY_REQUESTS

    def test_where_few_join_nobody_is_waited_for(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def work(world: World) -> int:
            await world.join(MANY_REQUESTS - 1)
            return await world.join(MANY_REQUESTS, slowly=True)

        monkeypatch.setattr("sparklog.group_commit.appends.GROWING_LINGER_S", 60)

        assert run(catalog(log_dir), work, linger_ms=0) < MANY_REQUESTS

    @pytest.mark.parametrize("turns", [1, 5])
    def test_a_produce_request_does_not_wait_for_those_who_join(
        self, turns: int, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def work(world: World) -> Any:
            await world.join(MANY_REQUESTS)
            joins = asyncio.ensure_future(world.join(1))
            for _ in range(turns):
                await asyncio.sleep(0)
            return await asyncio.wait_for(asyncio.gather(world.send(A), joins), 30)

        monkeypatch.setattr("sparklog.group_commit.appends.GROWING_LINGER_S", 60)

        assert run(catalog(log_dir), work, linger_ms=0) == [[Appended(2, -1, 0)], 1]

    def test_a_group_that_waits_for_those_who_join_is_committed_at_the_end(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def work(world: World) -> Any:
            await world.join(MANY_REQUESTS)
            joins = asyncio.ensure_future(world.join(1))
            for _ in range(5):
                await asyncio.sleep(0)
            await asyncio.wait_for(world.commit.close(), 30)
            return await joins

        monkeypatch.setattr("sparklog.group_commit.appends.GROWING_LINGER_S", 60)

        assert run(catalog(log_dir), work, linger_ms=0) == 1

    def test_is_told_before_its_answers(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            answer = world.send(A)
            answer.add_done_callback(lambda _: seen.append(len(world.images)))
            await answer
            return world.images[0].version

        seen: list[int] = []

        assert run(catalog(log_dir), work) == image(log_dir).version
        assert seen == [1]

    def test_is_answered_though_it_cannot_be_told(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            problems: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: problems.append(context["exception"])
            )
            world.commit.on_commit = broken
            return await world.send(A), await world.send(B), problems

        first, second, problems = run(catalog(log_dir), work)

        assert (first, second) == ([Appended(0, -1, 0)], [Appended(1, -1, 0)])
        assert [type(one) for one in problems] == [ZeroDivisionError] * 2

    def test_one_that_is_refused_is_told_to_nobody(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            world.commit.on_commit = None
            await world.send(A)
            world.commit.on_commit = world.images.append
            return await world.send(A, partition=9), world.images

        (refused,), images = run(catalog(log_dir), work)

        assert type(refused).__name__ == "UnknownTopicError"
        assert images == []

    def test_knows_the_version_of_the_request(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            batch = client_batch("a", codec=Codec.ZSTD)
            return await asyncio.gather(world.send(batch), world.send(batch, produce_version=6))

        (taken,), (refused,) = run(catalog(log_dir), work)

        assert taken == Appended(0, -1, 0)
        assert type(refused).__name__ == "UnsupportedCodecError"


class TestEnd:
    def test_all_that_waits_is_committed(self, log_dir: str) -> None:
        async def work(world: World) -> None:
            await asyncio.gather(world.send(A), world.send(A))
            world.send(B)

        run(catalog(log_dir), work, linger_ms=60_000)

        assert values(log_dir) == {0: ["a", "a", "b"]}

    def test_without_a_request(self, log_dir: str) -> None:
        async def work(world: World) -> None:
            return None

        before = image(log_dir).version
        run(catalog(log_dir), work)

        assert image(log_dir).version == before

    def test_a_group_is_committed_though_its_loop_is_closed(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write_late(*given: Any) -> Image | None:
            is_closed.wait(30)
            return write(*given)

        async def main() -> World:
            world = World(catalog(log_dir))
            world.send(A)
            await world.begun()
            return world

        is_closed, write = Event(), AppendWriter.write
        monkeypatch.setattr(AppendWriter, "write", write_late)
        world = asyncio.run(main())
        is_closed.set()
        world.commit._thread.close()

        assert values(log_dir) == {0: ["a"]}

    def test_a_request_is_committed_when_its_client_has_gone(self, log_dir: str) -> None:
        async def work(world: World) -> None:
            world.send(A).cancel()

        run(catalog(log_dir), work)

        assert values(log_dir) == {0: ["a"]}


class TestRoom:
    def test_is_there_again_after_a_commit(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            await world.commit.room()
            answer = world.send(A, A)
            await world.commit.room()
            return answer.done()

        assert run(catalog(log_dir), work, max_pending_bytes=len(A))

    def test_a_group_that_fills_it_waits_no_longer(self, log_dir: str) -> None:
        async def work(world: World) -> int:
            await asyncio.gather(*(world.send(A) for _ in range(9)))
            await asyncio.gather(world.send(A), world.send(A, A))
            return world.commits

        limits = {"max_pending_bytes": 3 * len(A), "linger_ms": 60_000}

        assert run(catalog(log_dir), work, **limits) == 2


class TestFailures:
    def test_of_the_storage_are_answers(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise StorageFullError("no space left")

        async def work(world: World) -> Any:
            monkeypatch.setattr("sparklog.storage.local.LocalFiles.create", full)
            return await world.send(A, A[:-1])

        full_disk, damaged = run(catalog(log_dir), work)

        assert isinstance(full_disk, StorageFullError)
        assert isinstance(damaged, InvalidRecordError)

    def test_of_the_program_are_raised(self, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
        async def work(world: World) -> Any:
            with monkeypatch.context() as patch:
                patch.setattr(AppendWriter, "write", broken)
                with pytest.raises(ZeroDivisionError):
                    await world.send(A)
            return await world.send(A)

        assert run(catalog(log_dir), work) == [Appended(0, -1, 0)]


def test_on_an_object_store_a_group_waits_for_others(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(world: World) -> int:
        world.commit._is_local = False
        first = world.send(A)
        for _ in range(5):
            await asyncio.sleep(0)
        await asyncio.gather(first, world.send(A))
        return world.commits

    monkeypatch.setattr("sparklog.group_commit.appends.REMOTE_LINGER_S", 0.01)

    assert run(catalog(log_dir), work) == 1


def test_after_a_commit_that_took_minutes_a_group_waits_no_longer_than_the_limit(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(world: World) -> Any:
        world.commit._is_local = False
        world.commit._commit_s = 120.0
        return await asyncio.wait_for(world.send(A), 60)

    monkeypatch.setattr("sparklog.group_commit.appends.REMOTE_LINGER_MAX_S", 0.01)

    assert run(catalog(log_dir), work) == [Appended(0, -1, 0)]


def test_the_package_loads_what_is_asked_for() -> None:
    assert package.AppendCommit is AppendCommit
    with pytest.raises(AttributeError, match="GroupCommittee"):
        _ = package.GroupCommittee
