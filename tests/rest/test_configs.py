"""The configs of all topics, as they are sent."""

import asyncio

from starlette.requests import Request

from sparklog.model import TopicDescription
from sparklog.rest.links import Links
from sparklog.rest.routes.configs import _listed


def test_others_have_a_turn_behind_each_topic() -> None:
    links = Links(Request({"type": "http", "path": "/", "headers": []}), "c")
    topics = [TopicDescription(f"t{number}", f"{number:022}", 1, {}, 0) for number in range(3)]

    async def turns_before_each_part() -> list[int]:
        turns: list[int] = []
        found: list[int] = []
        async for _ in _listed(links, topics, links.list_at("/topics/-/configs")):
            found.append(len(turns))
            asyncio.get_running_loop().call_soon(turns.append, 1)
        return found

    assert asyncio.run(turns_before_each_part()) == [0, 0, 2, 3, 4]
