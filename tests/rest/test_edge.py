"""The edge, by hand: bodies that come slowly, clients that do not receive, answers that break."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from sparklog.group_commit.share import Counts
from sparklog.rest.edge import Edge
from sparklog.rest.errors import ApiError
from sparklog.rest.metrics import Metrics
from tests.rest.conftest import settings_for

START = {"type": "http.response.start", "status": 200, "headers": []}
SCOPE = {
    "type": "http",
    "method": "GET",
    "path": "/",
    "headers": [(b"host", b"localhost")],
    "server": ("127.0.0.1", 80),
}


async def never(*_: Any) -> Any:
    await asyncio.sleep(60)


def run(app: Any, receive: Any = never, send: Any = None, **scope: Any) -> list[Any]:
    """Return what the edge sends for one request."""
    sent: list[Any] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    limits = {"body_timeout_ms": 1, "send_timeout_ms": 1}
    edge = Edge(app, settings_for("unused", **limits), Metrics(lambda: None, Counts()))
    asyncio.run(edge({**SCOPE, **scope}, receive, send or keep))
    return sent


class TestEdge:
    def test_a_body_that_does_not_come_is_a_408(self) -> None:
        async def app(_: Any, receive: Any, __: Any) -> None:
            await receive()

        start, body = run(app)

        assert start["status"] == 408
        assert b"the body took too long" in body["body"]

    def test_behind_a_body_nothing_is_limited(self) -> None:
        messages = [{"type": "http.request"}]

        async def receive() -> Any:
            if not messages:
                await asyncio.sleep(0.05)
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def app(_: Any, receive: Any, send: Any) -> None:
            await receive()
            assert (await receive())["type"] == "http.disconnect"
            await send({**START, "headers": []})

        assert run(app, receive)[0]["status"] == 200

    def test_a_client_that_goes_away_within_its_body_is_no_failure(self) -> None:
        messages = [{"type": "http.disconnect"}, {"type": "http.request", "more_body": True}]

        async def receive() -> Any:
            return messages.pop()

        async def app(scope: Any, receive: Any, _: Any) -> None:
            await Request(scope, receive).body()

        assert run(app, receive) == []

    def test_behind_the_start_of_an_answer_nothing_is_limited(self) -> None:
        async def receive() -> Any:
            return {"type": "http.disconnect"}

        async def app(_: Any, receive: Any, send: Any) -> None:
            await send({**START, "headers": []})
            assert (await receive())["type"] == "http.disconnect"

        assert [one["type"] for one in run(app, receive)] == ["http.response.start"]

    def test_a_client_that_does_not_receive_is_left(self) -> None:
        async def app(_: Any, __: Any, send: Any) -> None:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

        assert run(app, send=never) == []

    @pytest.mark.parametrize("error", [RuntimeError("secret"), ApiError(404, "no")])
    def test_an_answer_that_was_begun_is_broken_off(self, error: Exception) -> None:
        async def app(_: Any, __: Any, send: Any) -> None:
            await send({**START, "headers": []})
            raise error

        with pytest.raises(ConnectionAbortedError):
            run(app)

    def test_many_bodies_at_once_are_a_429(self) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b"x" * 600, "more_body": False}

        async def app(_: Any, receive: Any, send: Any) -> None:
            await receive()
            if not sent:
                sent.append(None)
                await edge(SCOPE, receive_part, keep)
            await send({**START, "headers": []})

        async def receive_part() -> Any:
            return await receive()

        async def keep(message: Any) -> None:
            sent.append(message)

        sent: list[Any] = []
        edge = Edge(
            app, settings_for("unused", max_bodies_bytes=1000), Metrics(lambda: None, Counts())
        )
        for _ in range(2):
            asyncio.run(edge(SCOPE, receive, keep))

        assert [one["status"] for one in sent if one and "status" in one] == [429, 200, 200]

    @pytest.mark.parametrize("server", [None, ("/run/socket", None)])
    def test_a_socket_in_the_file_system_is_this_machine(self, server: Any) -> None:
        async def app(_: Any, __: Any, send: Any) -> None:
            await send({**START, "headers": []})

        assert run(app, server=server)[0]["status"] == 200
