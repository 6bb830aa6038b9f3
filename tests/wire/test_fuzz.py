"""Hostile bytes: frames, headers and bodies are understood or refused, and nobody else notices."""

import socket
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sparklog.errors import InvalidFrameError, InvalidRequestError
from sparklog.wire.protocol.frames import (
    BUFFER_BYTES,
    FREE_BYTES_MAX,
    REUSED_BYTES,
    Frames,
    LargeFrames,
    new_buffer,
)
from sparklog.wire.protocol.headers import read_varint, request_header
from sparklog.wire.protocol.versions import APIS, ApiKey
from tests.wire.bodies import BY_HAND, read_request
from tests.wire.gateways import Client, RunningGateway, frame_of, request
from tests.wire.test_metadata import topics_asked

MAX_BYTES = 100_000
BODIES = st.one_of(
    st.binary(max_size=50), st.integers(BUFFER_BYTES - 8, BUFFER_BYTES + 8).map(lambda n: b"x" * n)
)
KEYS = st.sampled_from([*APIS, -1, 999])


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """The frames that come out when bytes come in parts of these sizes, round and round."""
    buffer = new_buffer()
    frames, found, place = Frames(MAX_BYTES, buffer, LargeFrames()), list[bytes](), 0
    while data:
        space = frames.space()
        count = min(len(space), len(data), sizes[place % len(sizes)])
        space[:count] = data[:count]
        found += [bytes(one) for one in frames.received(count)]
        buffer[:] = bytes(len(buffer))  # by other connections
        data, place = data[count:], place + 1
    return found


class TestFrames:
    @given(st.lists(BODIES, max_size=5), st.lists(st.integers(1, 20_000), min_size=1, max_size=5))
    def test_are_those_that_were_sent_however_they_come(
        self, bodies: list[bytes], sizes: list[int]
    ) -> None:
        sent = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
        assert cut(sent, sizes) == bodies

    @pytest.mark.parametrize("size", [-1, MAX_BYTES + 1, 2**31 - 1])
    def test_of_a_size_that_none_has_are_refused(self, size: int) -> None:
        with pytest.raises(InvalidFrameError, match=str(size)):
            cut(struct.pack(">i", size), [4])

    def test_that_are_cut_are_told(self) -> None:
        frames = Frames(MAX_BYTES, new_buffer(), LargeFrames())
        frames.space()[:6] = struct.pack(">i", 50_000) + b"ab"
        frames.received(6)
        assert (frames.has_part, frames.large_bytes, frames.missing_bytes) == (True, 50_000, 49_998)


class TestLargeFrames:
    def test_use_memory_again_that_nobody_reads(self) -> None:
        large = LargeFrames()
        first, second = large.take(REUSED_BYTES), large.take(REUSED_BYTES)
        first[:4], second[:4] = b"read", b"done"
        part = np.frombuffer(first.toreadonly()[:4], np.uint8)
        del first, second
        third, fourth = large.take(REUSED_BYTES), large.take(REUSED_BYTES)
        found = bytes(third[:4])
        third[:4], fourth[:4] = b"xxxx", b"yyyy"

        assert found == b"done"
        assert part.tobytes() == b"read"

    def test_do_not_keep_too_much(self) -> None:
        large = LargeFrames()
        whole, more = large.take(FREE_BYTES_MAX), large.take(REUSED_BYTES)
        del whole
        del more
        assert [len(one) for one in large._free] == [FREE_BYTES_MAX]
        large.let_go()
        assert large._free == []

    def test_of_a_much_smaller_size_get_other_memory(self) -> None:
        large = LargeFrames()
        before = large.take(3 * REUSED_BYTES)
        del before
        frame = large.take(REUSED_BYTES)
        assert (len(frame), len(large._free)) == (REUSED_BYTES, 1)


class TestRequests:
    @given(KEYS, st.integers(-1, 20), st.binary(max_size=200))
    @example(ApiKey.API_VERSIONS, 0, b"\0\0\0\0\xff\xff")
    @example(ApiKey.API_VERSIONS, 20, b"\0\0\0\0\xff\xff")
    def test_are_understood_or_refused(self, key: int, version: int, rest: bytes) -> None:
        frame = memoryview(struct.pack(">hh", key, version) + rest)
        with suppress(InvalidRequestError):
            read_request(frame)

    @given(st.data(), st.binary(max_size=200))
    def test_that_are_read_by_hand_are_understood_or_refused(
        self, data: st.DataObject, rest: bytes
    ) -> None:
        key = data.draw(st.sampled_from(list(BY_HAND)))
        version = data.draw(st.integers(APIS[key].served_from, APIS[key].max_version))
        tags = b"\0" if version >= APIS[key].flexible_from else b""
        with suppress(InvalidRequestError):
            read_request(memoryview(struct.pack(">hhih", key, version, 0, -1) + tags + rest))

    @given(st.integers(0, 60), st.binary(min_size=1, max_size=4))
    @example(1, bytes([ApiKey.API_VERSIONS]))
    def test_that_are_damaged_are_understood_or_refused(self, at: int, other: bytes) -> None:
        whole = frame_of(topics_asked(12, "flights", "b"))
        frame = memoryview(whole[:at] + other + whole[at + len(other) :])
        with suppress(InvalidRequestError):
            read_request(frame)

    @pytest.mark.parametrize(
        ("frame", "told"),
        [
            (b"", "0 bytes"),
            (struct.pack(">hhih", 3, 0, 0, -2), "client id of -2"),
            (struct.pack(">hhih", 3, 0, 0, 9), "client id of 9"),
            (struct.pack(">hhih", 3, 0, 0, 1) + b"\xff", "UTF-8"),
            (struct.pack(">hhih", 999, 0, 0, -1), "999"),
            (struct.pack(">hhih", 3, 99, 0, -1), "METADATA version 99"),
            (struct.pack(">hhih", 0, 2, 0, -1), "PRODUCE version 2: served are 3 to"),
            (struct.pack(">hhih", 3, 12, 0, -1) + b"\x01\x00\x09a", "tagged fields"),
        ],
    )
    def test_say_what_is_wrong(self, frame: bytes, told: str) -> None:
        with pytest.raises(InvalidRequestError, match=told):
            request_header(memoryview(frame))

    def test_may_have_tagged_fields_in_their_headers(self) -> None:
        frame = struct.pack(">hhih", 3, 12, 0, -1) + b"\x01\x00\x01a"
        assert request_header(memoryview(frame)).body_at == len(frame)

    def test_a_varint_of_six_bytes_is_none(self) -> None:
        with pytest.raises(InvalidRequestError, match="varint"):
            read_varint(b"\xff" * 6, 0)


class TestNeighbours:
    @settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(KEYS, st.integers(-1, 20), st.binary(max_size=100))
    def test_notice_nothing(
        self, running: RunningGateway, client: Client, key: int, version: int, rest: bytes
    ) -> None:
        with Client(running.port) as hostile:
            hostile.send_frame(struct.pack(">hhih", key, version, 0, -1) + rest)
            hostile.socket.shutdown(socket.SHUT_WR)
            list(iter(hostile.receive_frame, b""))
        assert client.ask(request(ApiKey.API_VERSIONS, 0)).error_code == 0

    def test_a_client_that_ends_its_half_is_answered(self, running: RunningGateway) -> None:
        with Client(running.port) as half:
            half.send(topics_asked(12))
            half.socket.shutdown(socket.SHUT_WR)
            assert half.receive(ApiKey.METADATA, 12).brokers
            assert half.receive_frame() == b""

    def test_a_size_that_lies_takes_no_memory(
        self, running: RunningGateway, client: Client
    ) -> None:
        liars = [Client(running.port) for _ in range(50)]
        for liar in liars:
            liar.socket.sendall(struct.pack(">i", 100 * 1024 * 1024))
        assert client.ask(request(ApiKey.API_VERSIONS, 0)).error_code == 0
        for liar in liars:
            liar.socket.close()
