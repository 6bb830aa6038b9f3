"""Instances as processes: two that share a log dir, one that is killed, clients that misbehave."""

import base64
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.logs import FOREVER, all_values, append, new_topic
from tests.rest.proxy import RoundRobin, connected, received
from tests.rest.servers import Instance

pytestmark = pytest.mark.slow

REQUESTS = 40
GET = b"GET /topics HTTP/1.1\r\nHost: localhost\r\n"


def body(value: str) -> dict[str, Any]:
    return {"records": [{"value": base64.b64encode(value.encode()).decode()}]}


def produce_until_acknowledged(url: str, value: str) -> tuple[int, int]:
    """Send a record again and again with one key, as a client does that wants it there once."""
    headers = {"Idempotency-Key": f"key-{value}"}
    status = 0
    while status != 200:
        answer = httpx2.post(f"{url}/topics/t", json=body(value), headers=headers, timeout=60)
        status = answer.status_code
    (got,) = answer.json()["offsets"]
    return got["partition"], got["offset"]


class TestTwo:
    @pytest.fixture
    def two(self, log_dir: str, tmp_path: Path) -> Iterator[tuple[Instance, Instance]]:
        with Instance(log_dir, tmp_path) as one, Instance(log_dir, tmp_path) as other:
            yield one, other

    def test_answer_as_one(self, two: tuple[Instance, Instance], log_dir: str) -> None:
        with RoundRobin([one.url for one in two]) as proxy, httpx2.Client(timeout=60) as client:
            ends = []
            for n in range(6):
                path = f"{proxy.url}/topics/t/partitions/1"
                client.post(path, json=body(str(n)))
                ends.append(client.get(f"{path}/offsets").json()["end_offset"])
            pages = [client.get(f"{proxy.url}/topics/t/partitions/1/records").json()] * 2

        assert ends == [1, 2, 3, 4, 5, 6]
        assert pages[0] == pages[1]
        assert [one["offset"] for one in pages[0]] == list(range(6))
        # Each of them was asked.
        asked = [sum(line["message"] == "request" for line in one.lines()) for one in two]
        assert min(asked) >= 6

    def test_one_killed_loses_and_doubles_nothing(
        self, two: tuple[Instance, Instance], log_dir: str
    ) -> None:
        values = [f"{n:03}" for n in range(REQUESTS)]
        with RoundRobin([one.url for one in two]) as proxy, ThreadPoolExecutor(8) as threads:
            waiting = [threads.submit(produce_until_acknowledged, proxy.url, v) for v in values]
            waiting[REQUESTS // 4].result()
            two[0].kill()
            places = [one.result() for one in waiting]

        assert all_values(log_dir) == values
        assert len(set(places)) == REQUESTS

    def test_a_long_poll_sees_what_the_other_committed(
        self, two: tuple[Instance, Instance]
    ) -> None:
        one, other = two
        path = "/topics/t/partitions/0/records?offset=0&timeout=30000"
        with one.client() as reader, other.client() as writer, ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(reader.get, path)
            writer.post("/topics/t/partitions/0", json=body("a"))

            assert [record["value"] for record in waiting.result().json()] == ["YQ=="]


def send_for_ever(connection: socket.socket, first: bytes, more: bytes) -> None:
    """Send until the other side has had enough."""
    connection.sendall(first)
    while True:
        connection.sendall(more)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Instance, str]]:
    """One for all who misbehave, with its log dir."""
    folder = tmp_path_factory.mktemp("misbehaviour")
    log_dir = new_topic(folder / "log", config=FOREVER)
    limits = {"header_timeout_ms": 1500, "body_timeout_ms": 1500, "max_header_bytes": 4096}
    with Instance(log_dir, folder, **limits) as found:
        yield found, log_dir


class TestMisbehaviour:
    def test_of_slow_senders_hurts_nobody_else(self, limited: tuple[Instance, str]) -> None:
        instance, _ = limited
        post = b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
        post += b"Content-Type: application/json\r\n\r\n{"
        with ExitStack() as stack:
            slow = [connected(instance.port, GET) for _ in range(50)]
            slow_body = connected(instance.port, post)
            client = stack.enter_context(instance.client())
            answers = {client.get("/topics").status_code for _ in range(20)}
            ends = [received(one) for one in slow]
            told = received(slow_body)

        assert answers == {200}
        assert set(ends) == {b""}
        assert b"408 Request Timeout" in told

    def test_of_large_headers_is_cut_off(self, limited: tuple[Instance, str]) -> None:
        instance, _ = limited
        filler = b"X-Filler: " + b"x" * 3000 + b"\r\n"
        with connected(instance.port, GET) as cut, pytest.raises(ConnectionError):
            cut.sendall(filler * 10_000)

        with instance.client() as client:
            assert client.get("/topics").json() == ["t"]

    def test_of_blank_lines_between_requests_is_cut_off(
        self, limited: tuple[Instance, str]
    ) -> None:
        instance, _ = limited
        connection = connected(instance.port, GET + b"\r\n")
        first = connection.recv(65536)
        connection.sendall(b"\r\n")

        assert b" 200 " in first
        assert (first + received(connection)).endswith(b'["t"]')

    @pytest.mark.parametrize(
        ("head", "more"),
        [
            (b"Content-Length: 999999999", b"x" * 65536),  # refused, but sent all the same
            (b"Transfer-Encoding: chunked", b"1\r\nx\r\n" * 9999),
            (b"Transfer-Encoding: chunked\r\n\r\n0", b"Trailer: endless\r\n"),
            (b"Transfer-Encoding: chunked\r\n\r\n1;extension=", b"x" * 999),
        ],
    )
    def test_of_a_body_that_nobody_reads_is_cut_off(
        self, limited: tuple[Instance, str], head: bytes, more: bytes
    ) -> None:
        instance, _ = limited
        post = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n"
        with connected(instance.port, post) as cut, pytest.raises(ConnectionError):
            send_for_ever(cut, b"\r\n" * (b"\r\n\r\n" not in head), more)

    def test_of_many_requests_at_once_is_cut_off(self, limited: tuple[Instance, str]) -> None:
        instance, _ = limited
        with connected(instance.port, b"") as cut, pytest.raises(ConnectionError):
            send_for_ever(cut, b"", (GET + b"\r\n") * 1000)

    @pytest.mark.parametrize(
        "request_", [b"\x00\x01\x02\r\n\r\n", b"GET nothing\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    )
    def test_of_no_http_is_told(self, limited: tuple[Instance, str], request_: bytes) -> None:
        instance, _ = limited

        assert b"400 Bad Request" in received(connected(instance.port, request_))

    def test_of_many_who_wait_hurts_nobody_else(self, limited: tuple[Instance, str]) -> None:
        instance, log_dir = limited
        poll = b"GET /topics/t/partitions/3/records?timeout=60000 HTTP/1.1\r\n"
        poll += b"Host: localhost\r\nConnection: close\r\n\r\n"
        waiting = [connected(instance.port, poll) for _ in range(200)]
        with instance.client() as client:
            answers = {client.get("/topics/t/offsets?timestamp=-1").status_code for _ in range(20)}
        append(log_dir, 3, ["new"])
        ends = [received(one) for one in waiting]

        assert answers == {200}
        assert all(b'"value":"bmV3"' in end for end in ends)


def in_progress(instance: Instance) -> int:
    """How many requests are being answered, this one among them."""
    text = httpx2.get(f"{instance.url}/metrics", timeout=60).text
    return int(float(text.partition("\nsparklog_requests_in_progress ")[2].split()[0]))


class TestEnd:
    def test_is_graceful(self, log_dir: str, tmp_path: Path) -> None:
        with (
            Instance(log_dir, tmp_path, linger_ms=3000) as instance,
            instance.client() as client,
            ThreadPoolExecutor(2) as threads,
        ):
            polling = threads.submit(client.get, "/topics/t/partitions/1/records?timeout=60000")
            producing = threads.submit(client.post, "/topics/t/partitions/0", json=body("last"))
            assert any(in_progress(instance) == 3 for _ in range(10_000))
            code = instance.stop()

            assert code == 0
            assert producing.result().json()["offsets"][0]["offset"] == 0
            assert polling.result().json() == []
        assert all_values(log_dir) == ["last"]

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"host": "0.0.0.0"}, "listens beyond this machine"),
            ({"port": "http"}, r"--port \(SPARKLOG_PORT\): Input should be a valid integer"),
            ({"tokens_file": "missing"}, "file of tokens missing: .*No such file"),
        ],
    )
    def test_comes_at_once_with_wrong_settings(
        self, log_dir: str, tmp_path: Path, settings: dict[str, str], told: str
    ) -> None:
        with pytest.raises(AssertionError, match=told):
            Instance(log_dir, tmp_path, **settings)
