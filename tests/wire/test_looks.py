"""Looks at the newest image: requests share them, and none gets an image from before it came."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from sparklog.admin import NewTopic
from sparklog.errors import StorageError
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.storage.local import LocalFiles
from sparklog.wire.looks import Looks
from tests.waiting import turns_until
from tests.wire.fetching import Part, fetched
from tests.wire.gateways import Client, RunningGateway
from tests.wire.test_list_offsets import EARLIEST, answers, list_request


class Begun:
    """The looks that have begun; a test ends each with an image, or with an error."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[Any]] = []
        self.looks = Looks(self._look)

    def _look(self) -> "asyncio.Future[Any]":
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def ask(self, count: int = 1) -> list["asyncio.Task[Any]"]:
        """Requests for an image that come at the same time, and have come when this returns."""
        asked = [asyncio.ensure_future(self.looks.image()) for _ in range(count)]
        await asyncio.sleep(0)
        return asked

    async def have(self, count: int) -> None:
        await turns_until(lambda: len(self.futures) == count)


def test_requests_that_come_during_a_look_share_the_next_one() -> None:
    async def scenario() -> list[Any]:
        begun = Begun()
        asked = await begun.ask()
        await begun.have(1)
        asked += await begun.ask() + await begun.ask(2)
        begun.futures[0].set_result("old")
        await begun.have(2)
        begun.futures[1].set_result("new")
        return await asyncio.gather(*asked)

    assert asyncio.run(scenario()) == ["old", "new", "new", "new"]


def test_an_error_reaches_those_who_wait_and_nobody_else() -> None:
    async def scenario() -> tuple[list[Any], Any]:
        begun = Begun()
        first = await begun.ask(2)
        await begun.have(1)
        begun.futures[0].set_exception(StorageError("the network is gone"))
        failed = await asyncio.gather(*first, return_exceptions=True)
        [later] = await begun.ask()
        await begun.have(2)
        begun.futures[1].set_result("new")
        return failed, await later

    failed, found = asyncio.run(scenario())
    assert ([type(one) for one in failed], found) == ([StorageError] * 2, "new")


def test_a_request_that_is_given_up_takes_no_look_from_others() -> None:
    async def scenario() -> Any:
        begun = Begun()
        given_up, waits = await begun.ask(2)
        await begun.have(1)
        given_up.cancel()
        await asyncio.sleep(0)
        begun.futures[0].set_result("new")
        return await waits

    assert asyncio.run(scenario()) == "new"


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_error_for_which_nobody_waits_any_more_is_no_bug(
    caplog: pytest.LogCaptureFixture, is_cancelled: bool
) -> None:
    async def scenario() -> None:
        begun = Begun()
        [given_up] = await begun.ask()
        await begun.have(1)
        given_up.cancel()
        look = begun.looks._last
        assert look is not None
        if is_cancelled:
            look.cancel()
        else:
            begun.futures[0].set_exception(StorageError("the network is gone"))
        await turns_until(look.done)

    asyncio.run(scenario())
    gc.collect()  # asyncio tells of errors that nobody has seen when they are freed
    assert caplog.messages == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: answers(client.ask(list_request(10, ("t", 0, 5)))),
        lambda client: answers(client.ask(list_request(10, ("t", 0, EARLIEST)))),
        lambda client: fetched(client, "t", Part(), version=12),
    ],
)
def test_a_request_looks_at_an_object_store_once(
    running: RunningGateway,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Client], Any],
) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    expected = ask(client)
    looks, look = [], FollowedTopics.image
    monkeypatch.setattr(LocalFiles, "is_local", False)
    monkeypatch.setattr(FollowedTopics, "image_at_hand", lambda *_, **__: None)

    def counted(topics: FollowedTopics, *opened: Any) -> Any:
        looks.append(opened)
        return look(topics, *opened)

    monkeypatch.setattr(FollowedTopics, "image", counted)
    assert (ask(client), looks) == (expected, [()])
