"""The queue of a group commit: who shares a commit, who waits, who is refused."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import ThrottlingQuotaExceededError
from sparklog.group_commit.queue import CommitLimits, GroupCommit
from sparklog.group_commit.share import Written
from sparklog.group_commit.writer import GroupWriter
from tests.failing import failing
from tests.logs import FOREVER, all_values, catalog, image
from tests.unit.group_commit.conftest import rows


class TestQueue:
    def run(self, log_dir: str, work: Callable[[GroupCommit], Any], **limits: Any) -> Any:
        async def main() -> Any:
            queue = GroupCommit(catalog(log_dir), CommitLimits(**{"linger_ms": 0, **limits}))
            try:
                return await work(queue)
            finally:
                await queue.close()

        return asyncio.run(main())

    def test_requests_that_linger_share_a_commit(self, log_dir: str) -> None:
        async def work(queue: GroupCommit) -> Any:
            requests = [queue.produce("t", rows(str(n), partition=0), None) for n in range(20)]
            return await asyncio.gather(*requests)

        found = self.run(log_dir, work, linger_ms=50)

        assert sorted(one.offset[0] for one in found) == list(range(20))
        assert image(log_dir).version == 2

    def test_requests_to_several_topics_share_a_commit(self, log_dir: str) -> None:
        AdminClient(log_dir).create_topics([NewTopic("u", 1, FOREVER)])

        async def work(queue: GroupCommit) -> Any:
            requests = [queue.produce(topic, rows(topic), None) for topic in "tut"]
            return await asyncio.gather(*requests)

        self.run(log_dir, work, linger_ms=50)

        assert image(log_dir).version == image(log_dir, "u").version == 3
        assert (all_values(log_dir), all_values(log_dir, "u")) == (["t", "t"], ["u"])

    def test_those_who_come_again_share_the_next_one(self, log_dir: str) -> None:
        async def twice(queue: GroupCommit) -> None:
            for value in "ab":
                await queue.produce("t", rows(value, partition=0), None)

        async def work(queue: GroupCommit) -> None:
            await asyncio.gather(*(twice(queue) for _ in range(5)))

        self.run(log_dir, work, linger_ms=50)

        assert image(log_dir).version == 3

    def test_who_was_just_answered_goes_with_those_who_waited(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write, late, hours = GroupCommit._written, list[asyncio.Task[Written]](), [0]

        async def slowly(queue: GroupCommit, *arguments: Any) -> Any:
            if not hours[0]:
                late.append(asyncio.create_task(queue.produce("t", rows("b", partition=0), None)))
            answers = await write(queue, *arguments)
            hours[0] += 1
            return answers

        async def work(queue: GroupCommit) -> None:
            loop = asyncio.get_running_loop()
            time = loop.time
            monkeypatch.setattr(loop, "time", lambda: time() + 3600 * hours[0])
            monkeypatch.setattr(GroupCommit, "_written", slowly)
            await queue.produce("t", rows("a", partition=0), None)
            for _ in range(10):
                await asyncio.sleep(0)
            await queue.produce("t", rows("c", partition=0), None)
            await late[0]

        self.run(log_dir, work, linger_ms=100)

        assert image(log_dir).version == 3

    def test_a_full_group_does_not_linger(self, log_dir: str) -> None:
        async def work(queue: GroupCommit) -> Any:
            requests = [queue.produce("t", rows("x" * 60, partition=0), None) for _ in range(4)]
            return await asyncio.gather(*requests)

        self.run(log_dir, work, linger_ms=10_000, batch_size=100)

        assert image(log_dir).version == 3

    def test_the_same_key_at_the_same_time_lands_once(self, log_dir: str) -> None:
        async def work(queue: GroupCommit) -> Any:
            requests = [queue.produce("t", rows("a"), "k") for _ in range(3)]
            return await asyncio.gather(*requests)

        found = self.run(log_dir, work)

        assert len({(one.partition[0], one.offset[0]) for one in found}) == 1
        assert all_values(log_dir) == ["a"]

    def test_a_key_that_waited_for_itself_goes_with_those_who_wait(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write, sizes = GroupCommit._written, list[int]()

        async def counted(queue: GroupCommit, group: Sequence[Any]) -> Any:
            sizes.append(len(group))
            return await write(queue, group)

        async def work(queue: GroupCommit) -> None:
            monkeypatch.setattr(GroupCommit, "_written", counted)
            first = asyncio.create_task(queue.produce("t", rows("a"), "k"))
            again = asyncio.create_task(queue.produce("t", rows("a"), "k"))
            await first
            await asyncio.gather(queue.produce("t", rows("b"), None), again)

        self.run(log_dir, work, linger_ms=200)

        assert sizes == [1, 2]
        assert sorted(all_values(log_dir)) == ["a", "b"]

    def test_nothing_is_kept_of_what_was_answered(self, log_dir: str) -> None:
        async def work(queue: GroupCommit) -> None:
            requests = [
                queue.produce(topic, rows("a"), key)
                for topic in ("t", "absent")
                for key in (None, "k")
            ]
            await asyncio.gather(*requests, return_exceptions=True)
            await queue.close()

            kept = queue._waiting, queue._keys, queue._bytes, queue._bytes_waiting, queue._task
            assert not any(kept)

        self.run(log_dir, work)

    def test_too_much_is_throttled(self, log_dir: str) -> None:
        async def work(queue: GroupCommit) -> Any:
            requests = [queue.produce(topic, rows("x" * 60), None) for topic in "tttu"]
            return await asyncio.gather(*requests, return_exceptions=True)

        found = self.run(log_dir, work, max_pending_bytes=160)

        (refused,) = [one for one in found if isinstance(one, ThrottlingQuotaExceededError)]
        assert "topic 't' waits to be committed: at most 160 bytes" in refused.message

    def test_closing_commits_what_waits(self, log_dir: str) -> None:
        async def work(queue: GroupCommit) -> None:
            waiting = asyncio.create_task(queue.produce("t", rows("a"), None))
            await asyncio.sleep(0)
            waiting.cancel()

        self.run(log_dir, work, linger_ms=10_000)

        assert all_values(log_dir) == ["a"]

    def test_an_unexpected_error_is_everybodys(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def work(queue: GroupCommit) -> Any:
            monkeypatch.setattr(GroupWriter, "write", failing(RuntimeError, "unexpected"))
            requests = [queue.produce("t", rows("a"), key) for key in (None, "k")]
            return await asyncio.gather(*requests, return_exceptions=True)

        assert [str(one) for one in self.run(log_dir, work)] == ["unexpected"] * 2
