"""An `Upgrade` is ignored: bodies and later requests arrive whole, however the bytes are cut.

The JDK's HttpClient and `curl --http2` ask for h2c with every request over plain text.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from sparklog.rest.server import GuardedProtocol, server_of
from tests.logs import FOREVER, all_values, new_topic
from tests.rest.conftest import settings_for
from tests.rest.proxy import connected, received
from tests.rest.servers import Instance
from tests.rest.test_server import Transport

WEBSOCKET = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
LENGTH = b"Content-Length: 4\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LIMIT = 4096


class Request(NamedTuple):
    """The parts of a request that the service gets."""

    method: str
    path: str
    body: bytes


def get(path: bytes, *headers: bytes) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path, b"".join(headers))


def post(path: bytes, body: bytes, *headers: bytes) -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path, b"".join(headers))
    return head + body


class Taking(Transport):
    """A connection whose answers go nowhere."""

    def pause_reading(self) -> None:
        """Bytes are handed over all the same."""

    def resume_reading(self) -> None:
        """Nothing was paused."""


@cache
def config() -> Config:
    """A service's, once for all connections."""
    found = server_of(settings_for("unused", max_header_bytes=LIMIT)).config
    found.load()
    return found


def requests_of(packets: Sequence[bytes]) -> tuple[list[Request], Taking]:
    """Hand packets to a connection; return the whole requests in them, and the connection."""
    got: list[Request] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, message = b"", {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
        assert b"upgrade" not in dict(scope["headers"])
        got.append(Request(scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def main() -> Taking:
        transport = Taking()
        made: Any = config().http_protocol_class
        protocol: GuardedProtocol = made(config(), ServerState(), {})
        protocol.app = app
        protocol.connection_made(transport)
        for packet in packets:
            if not transport.is_closed:
                protocol.data_received(packet)
        await asyncio.sleep(0)
        if transport.is_closed:
            protocol.connection_lost(None)
        while protocol.tasks:
            await asyncio.wait(protocol.tasks)
        protocol.connection_lost(ConnectionResetError())
        return transport

    return got, asyncio.run(main())


A, B, C = (Request("GET", path, b"") for path in ["/a", "/b", "/c"])
P = Request("POST", "/p", b"body")
CASES = {
    "body": (post(b"/p", b"body", H2C, LENGTH), [P]),
    "chunked": (post(b"/p", b"2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n", CHUNKED, H2C), [P]),
    "none": (get(b"/a", H2C) + get(b"/b"), [A, B]),
    "between": (get(b"/a") + post(b"/p", b"body", H2C, LENGTH) + get(b"/b"), [A, P, B]),
    "each": (get(b"/a", H2C) + post(b"/p", b"body", LENGTH, H2C) + get(b"/c", H2C), [A, P, C]),
    "websocket": (
        get(b"/a", WEBSOCKET) + get(b"/b"),
        [A, B],
    ),
    "twice": (post(b"/p", b"body", H2C, b"UPGRADE: other\r\n", LENGTH), [P]),
    "1.0": (post(b"/p", b"body", H2C, LENGTH).replace(b"HTTP/1.1", b"HTTP/1.0"), [P]),
    "last": (post(b"/p", b"body", H2C, LENGTH, b"Connection: close\r\n") + get(b"/b"), [P]),
}


class TestUpgrade:
    @pytest.mark.parametrize("case", CASES)
    @given(st.lists(st.integers(0, 400), max_size=4))
    @example([])
    @example(list(range(400)))
    def test_is_ignored_however_the_bytes_are_cut(self, case: str, cuts: list[int]) -> None:
        data, expected = CASES[case]
        ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
        packets = [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        got, transport = requests_of(packets)

        assert got == expected
        assert b" 400 " not in transport.sent

    def test_to_a_tunnel_is_refused(self) -> None:
        got, transport = requests_of([b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n" + get(b"/b")])

        assert not got
        assert transport.sent.startswith(b"HTTP/1.1 400 ")

    def test_with_a_body_of_unknown_length_is_refused(self) -> None:
        data = post(b"/p", get(b"/b"), H2C, b"Transfer-Encoding: identity\r\n")
        got, transport = requests_of([data])

        assert not got
        assert transport.sent.startswith(b"HTTP/1.1 400 ")


def head_of(size: int, *headers: bytes) -> bytes:
    """A request without a body, of so many bytes."""
    least = len(get(b"/a", *headers, b"X: \r\n"))
    return get(b"/a", *headers, b"X: %s\r\n" % (b"x" * (size - least)))


class TestLimit:
    @pytest.mark.parametrize("upgrade", [b"", H2C])
    @pytest.mark.parametrize("cut", [10, LIMIT - 1, LIMIT, LIMIT + 1])
    def test_of_headers_holds_however_they_are_cut(self, upgrade: bytes, cut: int) -> None:
        fitting, large = head_of(LIMIT, upgrade), head_of(LIMIT + 1, upgrade)

        assert requests_of([fitting[:cut], fitting[cut:]])[0] == [A]
        assert requests_of([large[:cut], large[cut:]])[0] == []

    def test_of_headers_spares_requests_before_them(self) -> None:
        large = head_of(LIMIT + 1, LENGTH) + b"body"
        got, transport = requests_of([post(b"/p", b"body", LENGTH) + large + get(b"/b")])

        assert got == [P]
        assert transport.is_closed

    @pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
    def test_of_trailers_is_their_own(self, size: int) -> None:
        trailer = b"T: %s\r\n" % (b"x" * (size - len(b"T: \r\n")))
        data = head_of(LIMIT, CHUNKED) + b"0\r\n" + trailer + b"\r\n"
        _, transport = requests_of([data])

        assert transport.is_closed == (size > LIMIT)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Instance, str]]:
    folder = tmp_path_factory.mktemp("upgrade")
    log_dir = new_topic(folder / "log", config=FOREVER)
    with Instance(log_dir, folder, header_timeout_ms=1500, max_body_bytes=1000) as found:
        yield found, log_dir


@pytest.mark.slow
class TestService:
    JSON = b"Content-Type: application/json\r\n"
    CLOSE = b"Connection: close\r\n"

    def test_stores_the_body_of_an_upgrade(self, instance: tuple[Instance, str]) -> None:
        body = b'{"records":[{"value":"YQ=="}]}'
        length = b"Content-Length: %d\r\n" % len(body)
        head = post(b"/topics/t", b"", H2C, self.JSON, length)
        connection = connected(instance[0].port, head)
        connection.sendall(body + get(b"/topics", H2C, self.CLOSE))
        answers = received(connection)

        assert answers.count(b"HTTP/1.1 200 OK") == 2
        assert answers.endswith(b'["t"]')
        assert all_values(instance[1]) == ["a"]

    def test_limits_the_body_of_an_upgrade(self, instance: tuple[Instance, str]) -> None:
        head = post(b"/topics/t", b"", H2C, self.JSON, self.CLOSE, b"Content-Length: 1001\r\n")

        assert b"413" in received(connected(instance[0].port, head)).partition(b"\r\n")[0]

    def test_limits_the_time_of_headers(self, instance: tuple[Instance, str]) -> None:
        assert received(connected(instance[0].port, get(b"/topics", H2C)[:-2])) == b""

    def test_limits_headers_that_come_at_once(self, instance: tuple[Instance, str]) -> None:
        head = get(b"/topics", b"X: %s\r\n" % (b"x" * 65_536))

        assert received(connected(instance[0].port, head)) == b""
