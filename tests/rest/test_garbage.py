"""Bodies that say nothing, 16 MiB of them: refused, in no more than four times their memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.logs import new_topic
from tests.rest.servers import Instance

MIB = 1024 * 1024
SIZE = 16 * MIB
KIND = {"Content-Type": "application/json"}


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
PATHS = ("/topics/t", "/topics/nope", "/topics/t/offsets:lookup", "/v3/clusters/-/topics")


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """A service with compiled kernels, as users run it."""
    folder = tmp_path_factory.mktemp("garbage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        with Instance(new_topic(folder / "log"), folder) as found:
            with found.client() as client:
                client.post("/topics/t", json={"records": [{"value": ""}] * 5000})
            yield found


class Memory:
    """The largest memory of a process since this was made."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = self._bytes("VmRSS")

    @property
    def growth_bytes(self) -> int:
        """How much larger it was than at first."""
        return self._bytes("VmHWM") - self._before

    def _bytes(self, name: str) -> int:
        lines = dict(line.split(":", 1) for line in self._status.read_text().splitlines())
        return int(lines[name].split()[0]) * 1024


class TestMemory:
    @pytest.mark.parametrize("kind", GARBAGE)
    @pytest.mark.parametrize("path", PATHS)
    def test_of_a_refusal_is_four_bodies_at_most(
        self, instance: Instance, path: str, kind: str
    ) -> None:
        body = GARBAGE[kind]()
        memory = Memory(instance.process.pid)
        with instance.client() as client:
            answer = client.post(path, content=body, headers=KIND)

        assert 400 <= answer.status_code < 500, answer.text
        assert len(answer.text) < 2000
        assert memory.growth_bytes <= 4 * SIZE

    def test_of_a_stream_of_objects_that_are_no_records(self, instance: Instance) -> None:
        with instance.client() as client:
            cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
            body = filled(b"", b'{"x":[{},{},{},{},{},{}]} ', b"")()
            memory = Memory(instance.process.pid)
            path = f"/v3/clusters/{cluster}/topics/t/records"
            answer = client.post(path, content=body, headers=KIND)

        assert answer.status_code in (413, 422)
        assert memory.growth_bytes <= 4 * SIZE
