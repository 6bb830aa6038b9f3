"""Groups of requests: those that come together share a commit, and a group waits for others."""

import asyncio
from typing import Any

import pytest

from sparklog.group_commit.append_slots import Append, Appended
from sparklog.group_commit.appends import MANY_REQUESTS
from sparklog.model import Codec
from tests.append_requests import A, B, World, broken, run
from tests.client_batches import client_batch
from tests.failing import failing
from tests.logs import catalog, image, values


async def twice(world: World) -> None:
    for batch in (A, B):
        await world.send(batch)


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
        async def work(world: World) -> int:
            await asyncio.gather(*(twice(world) for _ in range(5)))
            return world.commits

        assert run(catalog(log_dir), work, linger_ms=60_000) == 2

    def test_clients_that_take_turns_share_the_next_one(self, log_dir: str) -> None:
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
            refused = world.commit.append_when_taken(failing(ZeroDivisionError))
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
