"""Sending: bytes and ranges of files arrive in their order, whole, and only as fast as taken."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.log_reader.ranges import FileRange
from sparklog.model import TopicDescription
from sparklog.storage.kept_file import KeptFile
from sparklog.testing import Record, TemporaryTopic
from sparklog.wire.sending import (
    HELD_BYTES_MAX,
    PART_BYTES,
    SENDFILE_BYTES,
    TURN_BYTES,
    Sender,
    Sent,
)
from tests.failing import failing
from tests.wire.fetching import NEWEST, Part, fetch_request, fetched, values
from tests.wire.gateways import Client, RunningGateway


class Transport:
    """A connected socket, as a transport gives it; with TLS it writes itself."""

    def __init__(self, *, tls: bool = False) -> None:
        self.own, self.peer = socket.socketpair()
        self.own.setblocking(False)
        self.tls = tls
        self.written = b""
        self.is_aborted = self.is_closed = False

    def get_extra_info(self, name: str) -> Any:
        return {"socket": self.own, "ssl_object": self.tls or None}[name]

    def writelines(self, pieces: list[memoryview]) -> None:
        self.written += b"".join(pieces)

    def is_closing(self) -> bool:
        return self.is_aborted or self.is_closed

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True


class Sending:
    """A sender, and what its peer takes."""

    def __init__(self, *, tls: bool = False) -> None:
        self.transport = Transport(tls=tls)
        self.sent = Sent()
        self.resumed = asyncio.Event()
        self.sender = Sender(self.transport, "here", self.sent, self.resumed.set)

    async def take(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        self.transport.peer.setblocking(False)
        data = b""
        while len(data) < size:
            data += await loop.sock_recv(self.transport.peer, size - len(data))
        return data

    def close(self) -> None:
        self.sender.close()
        self.transport.own.close()
        self.transport.peer.close()


def run(test: Callable[[Sending], Awaitable[None]], *, tls: bool = False) -> None:
    async def main() -> None:
        sending = Sending(tls=tls)
        try:
            await asyncio.wait_for(test(sending), 30)
        finally:
            sending.close()

    asyncio.run(main())


@pytest.fixture
def content() -> bytes:
    return os.urandom(3 * SENDFILE_BYTES)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> KeptFile:
    (tmp_path / "file").write_bytes(content)
    return KeptFile("file", str(tmp_path), os.open(tmp_path / "file", os.O_RDONLY))


def answer(header: bytes, *pieces: bytes) -> bytes:
    body = header + b"".join(pieces)
    return len(body).to_bytes(4, "big") + body


def test_bytes_in_memory_count_until_they_are_taken(file: KeptFile) -> None:
    seen: list[Sent] = []

    async def test(sending: Sending) -> None:
        seen.append(sending.sent)
        size = 8 * TURN_BYTES
        sending.sender.send((b"", [bytes(size), FileRange(file, 0, SENDFILE_BYTES)]))
        assert 0 < sending.sent.held_bytes <= size
        await sending.take(4 + size + SENDFILE_BYTES)
        assert sending.sent.held_bytes == 0
        sending.sender.send((b"", [bytes(size)]))
        assert sending.sent.held_bytes > 0

    run(test)
    assert seen[0].held_bytes == 0


def test_slow_clients_of_one_address_leave_room_for_those_of_others() -> None:
    sent = Sent()
    half = HELD_BYTES_MAX // 2
    assert sent.room_for("slow") == HELD_BYTES_MAX
    sent.hold("slow", half)
    assert (sent.room_for("slow"), sent.room_for("quick")) == (0, half)
    sent.hold("other", half // 2)
    assert (sent.room_for("other"), sent.room_for("quick")) == (0, half // 2)
    sent.hold("slow", -half)
    assert sent.room_for("slow") == HELD_BYTES_MAX - half // 2


def test_a_thread_that_asks_while_bytes_are_counted_sees_those_before() -> None:
    sent, seen = Sent(), list[int]()
    sent.hold("slow", HELD_BYTES_MAX // 2)

    class Count(int):
        """A number during whose addition another thread asks."""

        def __radd__(self, other: int) -> int:
            seen.append(sent.room_for("slow"))
            return other + int(self)

    sent.hold("slow", Count(1))
    assert seen == [0, 0]


@pytest.mark.parametrize("tls", [False, True])
def test_pieces_arrive_in_their_order(file: KeptFile, content: bytes, tls: bool) -> None:
    async def test(sending: Sending) -> None:
        large, small = FileRange(file, 1, 2 * SENDFILE_BYTES), FileRange(file, 7, 100)
        sending.sender.send((b"head", [b"a", small, large, memoryview(b""), b"b", large, small]))
        parts = content[7:107], content[1 : 1 + 2 * SENDFILE_BYTES]
        expected = answer(b"head", b"a", *parts, b"b", *parts[::-1])
        got = sending.transport.written if tls else await sending.take(len(expected))
        assert got == expected
        assert sending.sent.sendfile_bytes == (0 if tls else 4 * SENDFILE_BYTES)
        assert sending.sent.written_bytes == len(expected) - sending.sent.sendfile_bytes

    run(test, tls=tls)


def test_a_client_that_takes_nothing_holds_ranges_and_no_bytes(
    file: KeptFile, content: bytes
) -> None:
    async def test(sending: Sending) -> None:
        sender = sending.sender
        whole = FileRange(file, 0, len(content))
        sender.send((b"1", [whole] * 50))
        sender.send((b"2", []))
        assert sender.is_paused
        assert all(isinstance(one, FileRange) or len(one) < 100 for one in sender._pieces)
        expected = answer(b"1", content * 50) + answer(b"2")
        assert len(expected) > 2 * TURN_BYTES
        assert await sending.take(len(expected)) == expected
        await sending.resumed.wait()
        assert not sender.is_paused

    run(test)


def test_large_pieces_of_memory_are_sent_in_parts() -> None:
    async def test(sending: Sending) -> None:
        data = os.urandom(8 * 2**20)
        sending.sender.send((b"1", [data]))
        assert await sending.take(len(data) + 5) == answer(b"1", data)
        await sending.resumed.wait()

    run(test)


def test_tcp_does_not_join_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    sendmsg, send = socket.socket.sendmsg, socket.socket.send

    def spied_sendmsg(own: socket.socket, pieces: list[memoryview], *others: Any) -> int:
        calls.append((sum(map(len, pieces)), others[-1]))
        return sendmsg(own, pieces, *others)

    def spied_send(own: socket.socket, piece: bytes, flags: int = 0) -> int:
        calls.append((len(piece), flags))
        return send(own, piece, flags)

    async def test(sending: Sending) -> None:
        monkeypatch.setattr(socket.socket, "sendmsg", spied_sendmsg)
        monkeypatch.setattr(socket.socket, "send", spied_send)
        small, large, own = b"s" * 100, b"l" * (3 * PART_BYTES), b"o" * 5000
        sending.sender.send((b"1", [small]), (b"2", [large]), (b"3", [own, bytearray(10)]))
        sending.sender.send((b"4", [small]))
        answers = answer(b"1", small), answer(b"2", large), answer(b"3", own, bytes(10))
        expected = b"".join([*answers, answer(b"4", small)])
        assert await sending.take(len(expected)) == expected
        assert all(size <= PART_BYTES and flags == socket.MSG_EOR for size, flags in calls)
        assert sum(size for size, _ in calls) == len(expected)

    run(test)


def test_a_slow_client_is_not_stuck_while_it_takes_something(file: KeptFile) -> None:
    async def test(sending: Sending) -> None:
        sender, size = sending.sender, 100 * len(file(0, 3 * SENDFILE_BYTES))
        assert sender.stuck_since(1.0) is None
        sender.send((b"1", [FileRange(file, 0, 3 * SENDFILE_BYTES)] * 100))
        assert (sender.stuck_since(2.0), sender.stuck_since(3.0)) == (2.0, 2.0)
        await sending.take(size - SENDFILE_BYTES)
        assert sender.stuck_since(4.0) in (4.0, None)
        await sending.take(SENDFILE_BYTES + 5)
        await sending.resumed.wait()
        assert sender.stuck_since(5.0) is None

    run(test)


def test_it_closes_behind_what_was_sent(file: KeptFile, content: bytes) -> None:
    async def test(sending: Sending) -> None:
        sending.sender.send((b"1", [FileRange(file, 0, len(content))] * 50))
        sending.sender.close_when_sent()
        states = [sending.transport.is_closed]
        await sending.take(50 * len(content) + 5)
        await sending.resumed.wait()
        assert [*states, sending.transport.is_closed] == [False, True]
        sending.sender.send((b"2", []))
        assert sending.sender.is_paused

    run(test)


def test_under_tls_it_stops_while_the_transport_is_full() -> None:
    async def test(sending: Sending) -> None:
        sending.sender.pause()
        sending.sender.send((b"1", []))
        assert (sending.sender.is_paused, sending.transport.written) == (True, b"")
        sending.sender.resume()
        assert (sending.sender.is_paused, sending.transport.written) == (False, answer(b"1"))

    run(test, tls=True)


def test_without_a_descriptor_of_its_own_it_writes_to_the_transport(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(sending: Sending) -> None:
        sending.sender.send((b"head", [b"body"]))
        assert sending.transport.written == answer(b"head", b"body")

    monkeypatch.setattr(os, "dup", failing(OSError, errno.EMFILE, "Too many open files"))
    run(test)


@pytest.mark.parametrize("size", [10, SENDFILE_BYTES])
def test_a_file_that_was_cut_ends_the_connection(
    file: KeptFile, content: bytes, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(sending: Sending) -> None:
        sending.sender.send((b"1", [FileRange(file, len(content), size)]))
        assert sending.transport.is_aborted

    run(test)
    assert f"broken off at ['{file.path}']: [Errno 5] the file is shorter" in caplog.text


def test_a_client_that_has_gone_is_no_trouble_of_the_storage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(sending: Sending) -> None:
        sending.transport.peer.close()
        sending.sender.send((b"1", [b"x" * SENDFILE_BYTES]), (b"2", [b"x" * SENDFILE_BYTES]))
        assert sending.transport.is_aborted

    run(test)
    assert not caplog.text


class TestZeroCopy:
    def test_large_pieces_of_sealed_segments_are_not_copied(
        self,
        running: RunningGateway,
        client: Client,
        flights: TemporaryTopic,
        topic: TopicDescription,
    ) -> None:
        flights.produce(*(Record("x" * 100_000, partition=0) for _ in range(20)))
        [found] = fetched(client, topic, Part())
        sent = running.server.gateway.sent
        assert len(values(found)) == 20
        assert sent.sendfile_bytes == len(found.records)
        assert sent.sendfile_calls > 0
        assert sent.written_bytes < 1000

    def test_a_client_that_takes_nothing_does_not_hold_up_others(
        self,
        running: RunningGateway,
        client: Client,
        flights: TemporaryTopic,
        topic: TopicDescription,
    ) -> None:
        flights.produce(*(Record("x" * 500_000, partition=0) for _ in range(20)))
        with Client(running.port) as idle:
            for _ in range(50):
                idle.send(fetch_request(NEWEST, topic, Part()))
            assert len(values(fetched(client, topic)[0])) == 20
