"""A gateway in this process, and a client that speaks Kafka's protocol by kio."""

import asyncio
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import uvloop
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from sparklog.clock import SystemClock
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from sparklog.tokens import Grant, Principal
from sparklog.wire.protocol.versions import APIS, ApiKey
from sparklog.wire.serving.server import Server
from sparklog.wire.settings import Settings
from sparklog.wire.tidying import Tidying
from tests.wire.requests import encoded


class RunningGateway:
    """A gateway on an event loop of its own thread."""

    def __init__(self, settings: Settings) -> None:
        self.server = Server(settings, SystemClock())
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    @property
    def port(self) -> int:
        return self.server.listeners[0].port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @cached_property
    def tidying(self) -> Tidying:
        """The tidying of its housekeeper, to be run by a test."""
        found = self.server.gateway
        catalog = Catalog(open_files(found.settings.log_dir))
        return Tidying(catalog, found.instances.own.node_id)

    def start(self) -> None:
        self._thread.start()
        self.run(self.server.start())

    def run(self, coroutine: Any) -> Any:
        """The result of a coroutine that runs on the gateway's loop."""
        return self.begin(coroutine).result(30)

    def begin(self, coroutine: Any) -> "Future[Any]":
        """The same without waiting for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        self.run(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def gateway(log_dir: str | Path, **values: object) -> Iterator[RunningGateway]:
    """A gateway over a log dir, on a free port, until the block ends."""
    given = {"log_dir": str(log_dir), "listen": ("127.0.0.1:0",), **values}
    running = RunningGateway(Settings.model_validate(given))
    running.start()
    try:
        yield running
    finally:
        running.close()


def certificate_in(folder: Path, *, key: Sequence[str] = ("rsa:2048",)) -> dict[str, Path]:
    """Settings of a gateway with a certificate of 127.0.0.1, and its key, made there."""
    found = {"ssl_certificate_file": folder / "c.pem", "ssl_key_file": folder / "k.pem"}
    command = ["openssl", "req", "-x509", "-newkey", *key, "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-out", str(found["ssl_certificate_file"]), "-keyout", str(found["ssl_key_file"])]
    subprocess.run(command, check=True, capture_output=True)
    return found


class Client:
    """One connection. Requests and answers are kio's classes."""

    def __init__(self, port: int) -> None:
        import socket

        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._correlation_id = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, request: Any) -> Any:
        """The answer to a request."""
        self.send(request)
        return self.receive(request.__api_key__, request.__version__)

    def send(self, request: Any) -> None:
        self.send_frame(frame_of(request, self._correlation_id))
        self._correlation_id += 1

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, api_key: int, version: int) -> Any:
        """The next answer, which is to a request of this API and version."""
        data = self.receive_frame()
        assert data, "the connection was closed"
        is_flexible = version >= APIS[ApiKey(api_key)].flexible_from
        at = 5 if is_flexible and api_key != ApiKey.API_VERSIONS else 4
        answer, size = entity_reader(load_response_schema(api_key, version))(data, at)
        assert at + size == len(data), "bytes behind the answer"
        return answer

    def receive_frame(self) -> bytes:
        """The next frame without its size; empty when the connection is closed."""
        head = self._take(4)
        return self._take(struct.unpack(">i", head)[0]) if head else b""

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = b""
            with suppress(ConnectionResetError):
                part = self.socket.recv(size - len(data))
            if not part:
                return b""
            data += part
        return data


def check_others_are_answered(
    running: RunningGateway,
    monkeypatch: pytest.MonkeyPatch,
    slow: tuple[Any, str],
    ask: Callable[[], None],
) -> None:
    """Check that another client is answered while the function (owner, name) stands still."""
    owner, name = slow
    begun, may_end, original = Event(), Event(), getattr(owner, name)

    def stands_still(*given: Any) -> Any:
        begun.set()
        may_end.wait(10)
        return original(*given)

    monkeypatch.setattr(owner, name, stands_still)
    ask()
    assert begun.wait(10)
    try:
        with Client(running.port) as other:
            other.socket.settimeout(5)
            other.ask(request(ApiKey.API_VERSIONS, 0))
    finally:
        may_end.set()


def grant_only(monkeypatch: pytest.MonkeyPatch, *grants: Grant) -> None:
    """Let the clients that connect from now on have these grants alone."""
    alice = Principal(name="alice", grants=grants)
    monkeypatch.setattr("sparklog.wire.security.session.EVERYBODY", alice)


def frame_of(request: Any, correlation_id: int = 0) -> bytes:
    """The bytes of a request, header and body."""
    key, version = request.__api_key__, request.__version__
    name = b"test"
    head = struct.pack(">hhih", key, version, correlation_id, len(name)) + name
    if version >= APIS[ApiKey(key)].flexible_from:
        head += b"\0"
    return head + encoded(request)


def request(api_key: int, version: int, **fields: Any) -> Any:
    """A request of kio's class for an API and version."""
    return load_request_schema(api_key, version)(**fields)
