"""Bodies that say nothing, 16 MiB of them: refused, in no more than four times their memory."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.logs import new_topic
from tests.rest.servers import Instance

MIB = 1024 * 1024
SIZE = 16 * MIB
KIND = "application/json"


def filled(start: bytes, repeated: bytes, end: bytes) -> Callable[[], bytes]:
    return lambda: start + repeated * ((SIZE - len(start + end)) // len(repeated)) + end


RECORD = b'{"records":[{"value":null'
GARBAGE = {
    "zeros": filled(b'{"records":[', b"0,", b"0]}"),
    "lists": filled(b'{"records":[', b"[],", b"0]}"),
    "depth": filled(b"", b"[", b""),
    "depth of a record": filled(b'{"records":[', b"[", b""),
    "one string": filled(b'{"records":[{"value":"', b"A", b'"}]}'),
    "a record that is too large": filled(b'{"records":[{"value":"', b"AAAA", b'"}]}'),
    "headers": filled(RECORD + b',"headers":[', b'{"key":"a"},', b'{"key":"a"}]}]}'),
    "one key again and again": filled(RECORD, b',"value":null', b"}]}"),
    "unknown members": filled(RECORD, b',"a":{}', b"}]}"),
    "values beside the records": filled(b'{"records":[{}],"x":[', b"0,", b"0]}"),
    "records without end": filled(b'{"records":[', b"{},", b""),
    "quotes": filled(b"", b'"', b""),
    "no text": filled(b"", b"\xff", b""),
    "blanks": filled(b"{", b" ", b"}"),
}
PATHS = (
    "/topics/t",
    "/topics/nope",
    "/topics/t/offsets:lookup",
    "/v3/clusters/-/topics",
    "/v3/clusters/{cluster}/topics/t/records:batch",
    "/v3/clusters/{cluster}/topics/t/configs:alter",
)


STREAM = "/v3/clusters/{cluster}/topics/t/records"
Post = Callable[..., Any]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """A service with compiled kernels, as users run it."""
    folder = tmp_path_factory.mktemp("garbage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        with Instance(new_topic(folder / "log"), folder) as found:
            with found.client() as client:
                client.post("/topics/t", json={"records": [{"value": ""}] * 5000})
                client.post(_in_cluster(client, STREAM), json={"records": [{"value": ""}]})
            yield found


def _in_cluster(client: Any, path: str) -> str:
    """A path with the id of the service's cluster."""
    cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
    return path.format(cluster=cluster)


class Memory:
    """The memory of a process, above what it has when this is made."""

    def __init__(self, pid: int) -> None:
        self._process = Path(f"/proc/{pid}")
        self._come_to_rest()
        (self._process / "clear_refs").write_text("5")  # the largest begins anew
        self._idle_bytes = self._bytes("VmRSS")

    @property
    def largest_bytes(self) -> int:
        """The most that it has had above that."""
        return self._bytes("VmHWM") - self._idle_bytes

    def _come_to_rest(self) -> None:
        """Wait, for 2 s at most, until the process has let go of the requests before."""
        end = time.monotonic() + 2
        before, now = -1, self._bytes("VmRSS")
        while now != before and time.monotonic() < end:
            time.sleep(0.05)
            before, now = now, self._bytes("VmRSS")

    def _bytes(self, name: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return int(dict(line.split(":", 1) for line in lines)[name].split()[0]) * 1024


@pytest.fixture
def post(instance: Instance) -> Iterator[Post]:
    """Sends a body to a path."""
    with instance.client() as client:
        yield lambda path, body, kind=KIND: client.post(
            _in_cluster(client, path), content=body, headers={"Content-Type": kind}
        )


@pytest.fixture
def memory(instance: Instance, post: Post) -> Memory:
    return Memory(instance.process.pid)


class TestMemory:
    @pytest.mark.parametrize("kind", GARBAGE)
    @pytest.mark.parametrize("path", PATHS)
    def test_of_a_refusal_is_four_bodies_at_most(
        self, post: Post, memory: Memory, path: str, kind: str
    ) -> None:
        answer = post(path, GARBAGE[kind]())

        assert 400 <= answer.status_code < 500, answer.text
        assert len(answer.text) < 2000
        assert memory.largest_bytes <= 4 * SIZE

    @pytest.mark.parametrize("kind", GARBAGE)
    def test_of_reports_is_four_bodies_at_most(
        self, post: Post, instance: Instance, kind: str
    ) -> None:
        """Method: the least of three, for holes in the C library's heap sometimes add a body."""
        peaks = []
        for _ in range(3):
            memory = Memory(instance.process.pid)
            answer = post(STREAM, GARBAGE[kind]())
            peaks.append(memory.largest_bytes)

            assert answer.status_code in (200, 413, 422)
        assert min(peaks) <= 4 * SIZE

    @pytest.mark.parametrize("count", [16, 1])
    @pytest.mark.parametrize("is_stream", [False, True])
    def test_of_wide_text_is_eight_bodies_at_most(
        self, post: Post, memory: Memory, is_stream: bool, count: int
    ) -> None:
        """One character beyond U+FFFF makes a text of Python take four bytes a character."""
        text = "\N{GRINNING FACE}" + "A" * (SIZE // count - 200)
        value = {"type": "STRING", "data": text} if is_stream else text
        record = json.dumps({"value": value}, ensure_ascii=False).encode()
        if is_stream:
            answer = post(STREAM, record * count)
        else:
            body = b'{"records":[' + b",".join([record] * count) + b"]}"
            answer = post("/topics/t", body, "application/vnd.kafka.json.v2+json")

        # A record of 16 MiB is larger than max.message.bytes.
        assert answer.text.count('"offset"') == (count if count > 1 else 0)
        assert memory.largest_bytes <= 8 * SIZE

    def test_of_too_many_objects_is_four_bodies_at_most(self, post: Post, memory: Memory) -> None:
        answer = post(STREAM, filled(b"", b'{"x":[{},{},{},{},{},{}]} ', b"")())

        assert answer.status_code == 413
        assert memory.largest_bytes <= 4 * SIZE
