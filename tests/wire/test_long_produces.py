"""A produce request of many parts is worked on beside the event loop, and keeps its place."""

import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from threading import Event, current_thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.errors import StorageError
from sparklog.group_commit.append_slots import Slot
from sparklog.model import TopicDescription
from sparklog.wire import long_produces
from sparklog.wire.gateway import LONG_AT_ONCE
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import client_batch
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, check_others_are_answered, frame_of
from tests.wire.test_metadata import topics_asked
from tests.wire.test_produce import answers, produce_request, values

handler = import_module("sparklog.wire.handlers.records.produce")
FEW = 2
"""With so few topics and parts the event loop itself works on a request here."""
UNKNOWN = ErrorCode.unknown_topic_or_partition
BATCHES = [
    client_batch("a"),
    client_batch("b", "c", producer_id=7, producer_epoch=0, base_sequence=0),
    client_batch("d", producer_id=7, producer_epoch=0, base_sequence=9),
    client_batch("e", record_count=2),
    client_batch("f", attributes=5),
    client_batch("g", attributes=16, producer_id=8, producer_epoch=0, base_sequence=0),
    client_batch("h")[:-1] + b"?",
    client_batch("i")[:9],
    b"",
]
"""Sound ones; such as the log refuses; damaged ones."""


@pytest.fixture(autouse=True)
def few_parts_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "QUICK_ITEMS", FEW)
    monkeypatch.setattr(handler, "CHECKED_AT_ONCE", FEW)


def long_request(*texts: str, **fields: Any) -> Any:
    """A request with a batch for partition 0, and FEW parts of partitions that do not exist."""
    nowhere = [(9, client_batch("x"))] * FEW
    return produce_request(9, "flights", (0, client_batch(*texts)), *nowhere, **fields)


def send_at_once(client: Client, *frames: bytes) -> None:
    """Send frames, so that the later ones are there while the first one is worked on."""
    client.socket.sendall(b"".join(struct.pack(">i", len(one)) + one for one in frames))


def break_off(client: Client) -> None:
    """Close a connection by a reset."""
    client.socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


@pytest.mark.usefixtures("topic")
def test_all_its_steps_are_taken_there(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[str]()

    def noted(function: Callable[..., Any], *given: Any) -> Any:
        found = function(*given)
        threads.add(current_thread().name.rpartition("_")[0])
        return found

    for name in ("read_produce_request", "_judged", "check_ahead", "_has_lost_topics", "_written"):
        monkeypatch.setattr(handler, name, partial(noted, getattr(handler, name)))
    refused = [(9, UNKNOWN, -1)] * FEW
    assert answers(client.ask(long_request("a"))) == [(0, 0, 0), *refused]
    assert threads == {"produce"}


@pytest.mark.usefixtures("topic")
def test_others_are_answered_meanwhile(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = handler, "_judged"
    check_others_are_answered(running, monkeypatch, slow, lambda: client.send(long_request("a")))
    assert answers(client.receive(ApiKey.PRODUCE, 9))[0] == (0, 0, 0)


@pytest.mark.usefixtures("topic")
def test_its_batches_land_before_those_behind_it(client: Client, tmp_path: Path) -> None:
    short = produce_request(9, "flights", (0, client_batch("1")))
    send_at_once(client, *map(frame_of, (long_request("0"), short, long_request("2", acks=0))))
    found = [answers(client.receive(ApiKey.PRODUCE, 9))[0] for _ in range(2)]
    assert found == [(0, 0, 0), (0, 0, 1)]
    assert client.receive_frame() == b"", "parts have failed with acks=0"
    assert values(tmp_path / "log", "flights", 0) == [b"0", b"1", b"2"]


@pytest.mark.usefixtures("topic")
def test_its_refused_parts_do_not_hold_up_the_commit(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each damaged or misplaced batch would take some 20 µs of all other clients."""
    writer = running.server.gateway.appends._writer
    write, written = writer.write, list[Slot]()

    def noted(slots: list[Slot], *given: Any) -> Any:
        written.extend(slots)
        return write(slots, *given)

    monkeypatch.setattr(writer, "write", noted)
    batch = client_batch("a")
    parts = [(0, b""), (9, batch), (0, batch), (0, batch[:-1] + b"?")]
    assert [code for _, code, _ in answers(client.ask(produce_request(9, "flights", *parts)))] == [
        ErrorCode.invalid_record,
        UNKNOWN,
        ErrorCode.none,
        ErrorCode.corrupt_message,
    ]
    assert [bytes(one.append.batch) for one in written] == [batch]


def test_its_answers_are_those_of_a_short_one(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a client cannot tell how the gateway works on its request.

    Method: two topics get the same parts, one of them in requests that count as short.
    """
    running.server.gateway.admin.create_topics([NewTopic("long", 2), NewTopic("short", 2)])

    @settings(max_examples=30)
    @given(st.lists(st.tuples(st.integers(-1, 2), st.sampled_from(BATCHES)), min_size=FEW))
    def are_the_same(parts: list[tuple[int, bytes]]) -> None:
        long = answers(client.ask(produce_request(9, "long", *parts)))
        monkeypatch.setattr(handler, "QUICK_ITEMS", 1 + len(parts))
        short = answers(client.ask(produce_request(9, "short", *parts)))
        monkeypatch.setattr(handler, "QUICK_ITEMS", FEW)

        assert long == short

    are_the_same()


@pytest.mark.usefixtures("topic")
def test_those_behind_it_are_not_begun_before_its_bytes_count(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    appends, read = running.server.gateway.appends, handler.read_produce_request
    write, pending, is_read = appends._writer.write, list[int](), Event()

    def noted(*given: Any) -> Any:
        pending.append(appends._bytes)
        return read(*given)

    def held_up(*given: Any) -> Any:
        is_read.wait(30)
        return write(*given)

    monkeypatch.setattr(appends._writer, "write", held_up)
    monkeypatch.setattr(handler, "read_produce_request", noted)
    send_at_once(client, frame_of(long_request("0")), frame_of(long_request("1")))
    until(lambda: len(pending) == 4)
    is_read.set()
    size = len(client_batch("0"))
    assert pending == [0, 0, size, size]


@pytest.mark.usefixtures("topic")
def test_long_requests_of_other_kinds_do_not_wait_for_it(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, judged = Event(), Event(), handler._judged

    def stands_still(*given: Any) -> Any:
        begun.set()
        may_end.wait(30)
        return judged(*given)

    monkeypatch.setattr(handler, "_judged", stands_still)
    with ExitStack() as opened:
        opened.callback(may_end.set)
        for _ in range(2 * LONG_AT_ONCE):
            opened.enter_context(Client(running.port)).send(long_request("a"))
        assert begun.wait(30)
        until(lambda: len(running.server.gateway.producing) == 2 * LONG_AT_ONCE)
        names = [f"a topic of a long name {number}" for number in range(1000)]
        assert len(client.ask(topics_asked(12, *names)).topics) == 1000


@pytest.mark.usefixtures("topic")
def test_it_is_not_read_while_those_in_progress_fill_the_memory(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, items, before = running.server.gateway, 1 + 1 + FEW, list[int]()
    produces, read, may_write = gateway.long_produces, handler.read_produce_request, Event()
    write = gateway.appends._writer.write

    def noted(*given: Any) -> Any:
        before.append(produces._items)
        return read(*given)

    def held_up(*given: Any) -> Any:
        may_write.wait(30)
        return write(*given)

    monkeypatch.setattr(long_produces, "ITEMS_FULL", items)
    monkeypatch.setattr(handler, "read_produce_request", noted)
    monkeypatch.setattr(gateway.appends._writer, "write", held_up)
    with Client(running.port) as other:
        client.send(long_request("1"))
        until(lambda: gateway.appends._bytes > 0)
        other.send(long_request("2"))
        until(lambda: len(before) == 3 and produces.turn.locked())
        may_write.set()
        found = [answers(one.receive(ApiKey.PRODUCE, 9))[0] for one in (client, other)]
    assert (found, before) == ([(0, 0, 0), (0, 0, 1)], [0, 0, items, 0])


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("has_gone", [False, True])
def test_the_end_waits_until_it_is_appended(
    running: RunningGateway,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_gone: bool,
) -> None:
    gateway, judged = running.server.gateway, handler._judged
    close = gateway.appends.close
    begun, may_end, is_sent = Event(), Event(), list[bool]()

    def stands_still(*given: Any) -> Any:
        begun.set()
        may_end.wait(30)
        return judged(*given)

    async def noted() -> None:
        is_sent.append(sending.done())
        await close()

    monkeypatch.setattr(handler, "_judged", stands_still)
    monkeypatch.setattr(gateway.appends, "close", noted)
    client.send(long_request("0"))
    assert begun.wait(30)
    [sending] = gateway.producing
    if has_gone:
        break_off(client)
        until(lambda: not gateway.connections)
    ending = running.begin(running.server.close())
    until(lambda: gateway.is_ending)
    may_end.set()
    if not has_gone:
        assert answers(client.receive(ApiKey.PRODUCE, 9))[0] == (0, 0, 0)
    ending.result(30)
    assert is_sent == [True]
    assert values(tmp_path / "log", "flights", 0) == [b"0"]


@pytest.mark.usefixtures("topic")
def test_its_bytes_count_until_it_is_committed_although_its_client_has_gone(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, judged, may_end = running.server.gateway, handler._judged, Event()

    def stands_still(*given: Any) -> Any:
        may_end.wait(30)
        return judged(*given)

    monkeypatch.setattr(handler, "_judged", stands_still)
    client.send(long_request("a"))
    until(lambda: gateway.long_produces._items > 0)
    break_off(client)
    until(lambda: gateway.limits.connections == 0)
    held = gateway.limits.request_bytes
    may_end.set()
    assert held == len(frame_of(long_request("a")))
    until(lambda: gateway.limits.request_bytes == 0)


@pytest.mark.usefixtures("topic")
def test_its_parts_are_forgotten(running: RunningGateway, client: Client) -> None:
    client.ask(long_request("a"))
    [connection] = running.server.gateway.connections
    assert connection.session.produced is None


@pytest.mark.usefixtures("topic")
def test_acks_that_no_producer_may_ask_for(client: Client, tmp_path: Path) -> None:
    found = answers(client.ask(long_request("a", acks=2)))
    assert {code for _, code, _ in found} == {ErrorCode.invalid_required_acks}
    assert values(tmp_path / "log", "flights", 0) == []


@pytest.mark.usefixtures("topic")
def test_behind_a_malformed_one_nothing_lands(client: Client, tmp_path: Path) -> None:
    behind = produce_request(9, "flights", (0, client_batch("b")))
    send_at_once(client, frame_of(long_request("a"))[:-3], frame_of(behind))
    assert client.receive_frame() == b""
    assert values(tmp_path / "log", "flights", 0) == []


@pytest.mark.usefixtures("topic")
def test_behind_a_request_that_fails_it_does_not_land(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, looks = running.server.gateway, list[int]()
    newest = gateway.newest_image

    async def first_broken() -> Any:
        looks.append(1)
        if len(looks) > 1:
            return await newest()
        raise StorageError("the disk is gone")

    monkeypatch.setattr(gateway, "newest_image", first_broken)
    short = produce_request(9, "nowhere", (0, client_batch("0")))
    send_at_once(client, frame_of(short), frame_of(long_request("1")))
    with suppress(ConnectionError):
        assert client.receive_frame() == b""
    with Client(running.port) as again:
        assert answers(again.ask(long_request("2")))[0] == (0, 0, 0)


def test_a_topic_that_was_deleted_meanwhile(
    running: RunningGateway,
    client: Client,
    topic: TopicDescription,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = running.server.gateway
    before = running.run(gateway.newest_image())

    async def older() -> Any:
        monkeypatch.undo()
        return before

    monkeypatch.setattr(gateway, "newest_image", older)
    gateway.admin.delete_topics([topic.name])
    assert {code for _, code, _ in answers(client.ask(long_request("a")))} == {UNKNOWN}
