"""Watch: one look serves all who wait; what cannot be read wakes them all."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sparklog.errors import MissingFileError
from sparklog.metadata.state.edit import Edit, Stamp, TopicEdit
from sparklog.metadata.state.image import Image
from sparklog.model import TopicDescription
from sparklog.wire.watch import Watch
from tests.waiting import turns_until

A, B = (TopicDescription(name, name * 22, 1, {}, 0) for name in "ab")


class Topics:
    """A metadata log: the newest image, at hand or to be read."""

    def __init__(self) -> None:
        self.image = Image()
        self.is_at_hand = True
        self.is_gone = False
        self.looks = 0
        for topic in (A, B):
            self.change(topic)

    def change(self, topic: TopicDescription) -> Image:
        edit = Edit(operation="TEST", topics={topic.topic_id: TopicEdit(description=topic)})
        version = self.image.version + 1
        self.image = self.image.apply([edit], Stamp(version, str(version), 0))
        return self.image

    @property
    def last_seen(self) -> Image:
        return self.image

    def is_behind(self) -> bool:
        self.looks += 1
        return not self.is_at_hand

    async def newest(self) -> Image:
        if self.is_gone:
            raise MissingFileError("gone")
        return self.image


def run(test: Callable[[Topics, Watch], Awaitable[None]]) -> None:
    async def main() -> None:
        topics = Topics()
        watch = Watch(topics, topics.newest, 0.001)  # type: ignore[arg-type] # a twin
        await asyncio.wait_for(test(topics, watch), 30)
        assert watch.waiting == 0

    asyncio.run(main())


def wait(watch: Watch, image: Image, topic: TopicDescription = A) -> "asyncio.Future[bool]":
    return watch.wait(image, [topic.topic_id], lambda _: True, 100)


@pytest.mark.parametrize("is_at_hand", [True, False])
def test_a_change_of_the_topic_wakes(is_at_hand: bool) -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        topics.is_at_hand = is_at_hand
        watch.saw(topics.image)
        first, second = wait(watch, topics.image), wait(watch, topics.image, B)
        topics.change(A)
        assert await first
        assert not second.done()
        topics.change(B)
        assert await second

    run(test)


def test_a_fetch_is_told_that_its_time_is_over() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        watch.saw(topics.image)
        old = topics.image
        topics.change(B)
        assert not await watch.wait(old, [A.topic_id], lambda _: True, 0.01)

    run(test)


def test_after_the_end_nothing_is_looked_at() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        waiting = wait(watch, topics.image)
        watch.close()
        await waiting
        await asyncio.sleep(0.01)
        assert topics.looks == 0

    run(test)


def test_what_was_seen_meanwhile_is_not_waited_for() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        old = topics.image
        watch.saw(topics.change(A))
        await wait(watch, old)
        assert topics.looks == 0

    run(test)


def test_a_fetch_is_asked_once_for_each_image() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        watch.saw(topics.image)
        asked: list[Image] = []

        def is_wanted(image: Image) -> bool:
            asked.append(image)
            return False

        ids = [A.topic_id, B.topic_id]
        waiting = watch.wait(topics.image, ids, is_wanted, 0.1)
        topics.change(A)
        watch.saw(topics.change(B))
        assert asked == [topics.image]
        await waiting

    run(test)


def test_an_older_image_is_no_news() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        old = topics.image
        watch.saw(topics.change(A))
        waiting = wait(watch, topics.image)
        watch.saw(old)
        watch.saw(topics.change(A))
        await waiting

    run(test)


def test_a_look_may_find_a_lower_version() -> None:
    """Goal: nobody is woken again and again after `verify --repair` has cut the log."""

    async def test(topics: Topics, watch: Watch) -> None:
        lower = topics.image
        watch.saw(topics.change(A))
        first = wait(watch, topics.image)
        topics.image = lower
        assert await first
        second = wait(watch, lower)
        assert not second.done()
        topics.change(A)
        assert await second

    run(test)


def test_a_failure_to_read_wakes_everybody() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        topics.is_at_hand, topics.is_gone = False, True
        await asyncio.gather(wait(watch, topics.image), wait(watch, topics.image, B))

    run(test)


def test_who_was_woken_is_not_woken_again() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        first, second = wait(watch, topics.image), wait(watch, topics.image)
        watch.saw(topics.change(A))
        watch.saw(topics.change(A))
        await asyncio.gather(first, second)

    run(test)


def test_one_of_two_who_wait_for_a_topic_may_go() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        watch.saw(topics.image)
        first, second = wait(watch, topics.image), wait(watch, topics.image)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert watch.waiting == 1
        topics.change(A)
        await second

    run(test)


def test_nobody_waits_after_the_end() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        waiting = wait(watch, topics.image)
        watch.close()
        await waiting
        await wait(watch, topics.image)

    run(test)


def test_it_looks_only_while_somebody_waits() -> None:
    async def test(topics: Topics, watch: Watch) -> None:
        waiting = wait(watch, topics.image)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await turns_until(lambda: watch._next_look is None)
        assert topics.looks == 1

    run(test)
