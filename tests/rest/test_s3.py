"""The service over an object store: the same answers, from one instance and from two."""

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from sparklog.record.decode import decode
from sparklog.record.scan import scan_batches
from sparklog.rest.payloads.media_types import ARROW, RAW
from tests.logs import FOREVER, append, new_topic, values
from tests.rest.conftest import client_for, settings_for
from tests.rest.servers import Instance
from tests.s3 import S3LogDir, s3_log_dir, s3_server

__all__ = ["s3_log_dir", "s3_server"]

pytestmark = pytest.mark.s3

PATH = "/topics/t/partitions/1"


@pytest.fixture
def uri(s3_log_dir: S3LogDir, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty log dir in the object store, whose settings are in the environment."""
    for name, value in s3_log_dir.options.items():
        monkeypatch.setenv(name, value)
    return s3_log_dir.uri


def record(value: str, **fields: Any) -> dict[str, Any]:
    return {"value": base64.b64encode(value.encode()).decode(), **fields}


class TestAbsence:
    def test_an_empty_prefix_is_ready_and_a_missing_bucket_is_not(self, uri: str) -> None:
        with client_for(settings_for(uri)) as client:
            assert client.get("/ready").status_code == 200
        with client_for(settings_for("s3://no-such-bucket/log")) as client:
            ready, topics = client.get("/ready"), client.get("/topics")

        assert (ready.status_code, ready.json()["error_code"]) == (503, 50302)
        assert (topics.status_code, topics.json()["error_code"]) == (503, 50302)


class TestOne:
    @pytest.fixture
    def client(self, uri: str) -> Iterator[TestClient]:
        """A client of a service that sees every commit at once."""
        with client_for(settings_for(uri, poll_interval_ms=1)) as client:
            yield client

    def test_makes_a_log_dir_and_answers_from_it(self, client: TestClient, uri: str) -> None:
        new = {"topic_name": "t", "partitions_count": 2, "configs": []}
        created = client.post("/v3/clusters/-/topics", json=new).status_code
        sent = [record(text, timestamp=at) for text, at in (("a", 3000), ("b", 1000), ("c", 2000))]
        answer = client.post(PATH, json={"records": sent})

        assert (created, client.get("/ready").status_code) == (201, 200)
        assert [one["offset"] for one in answer.json()["offsets"]] == [0, 1, 2]
        assert values(uri) == {1: ["a", "b", "c"]}

    def test_looks_up_offsets_and_times(self, client: TestClient, uri: str) -> None:
        new_topic(uri, config=FOREVER)
        append(uri, 1, "abc", timestamps=[1000, 3000, 2000])
        append(uri, 1, "de", timestamps=[4000, 5000])
        lookups = [{"partition": 1, "timestamp": when} for when in (2500, -1, -2, -3, 9999)]
        found = client.post("/topics/t/offsets:lookup", json={"lookups": lookups}).json()
        place = client.get(f"{PATH}/offsets/3").json()

        assert [one["offset"] for one in found["lookups"]] == [1, 5, 0, 4, -1]
        assert client.get(f"{PATH}/offsets").json() == {"beginning_offset": 0, "end_offset": 5}
        assert client.get(f"{PATH}/offsets?timestamp=4500").json()["offset"] == 4
        assert (place["segment_base_offset"], place["batch_last_offset"]) == (3, 4)

    def test_fetches_in_every_form(self, client: TestClient, uri: str) -> None:
        new_topic(uri, config=FOREVER)
        append(uri, 1, "abc")
        append(uri, 1, "de")
        path = f"{PATH}/records?offset=1&timeout=0"
        arrow = client.get(path, headers={"Accept": ARROW}).content
        raw = client.get(path, headers={"Accept": RAW}).content

        assert [one["offset"] for one in client.get(path).json()] == [1, 2, 3, 4]
        table = pa.ipc.open_stream(arrow).read_all()
        assert table.column("value").to_pylist() == [b"b", b"c", b"d", b"e"]
        found = decode(raw, scan_batches(raw).batches, start_offset=1)
        assert found.offset.to_pylist() == [1, 2, 3, 4]


@pytest.mark.slow
class TestTwo:
    def test_write_and_read_as_one(self, uri: str, tmp_path: Path) -> None:
        new_topic(uri, config=FOREVER)
        texts = [f"{n:02}" for n in range(12)]
        with (
            Instance(uri, tmp_path) as one,
            Instance(uri, tmp_path) as other,
            ThreadPoolExecutor(4) as threads,
        ):

            def send(number: int) -> Any:
                url = (one, other)[number % 2].url
                body = {"records": [record(texts[number])]}
                headers = {"Idempotency-Key": f"k{number}"}
                answer = httpx2.post(url + PATH, json=body, headers=headers, timeout=60)
                return answer.json()["offsets"][0]["offset"]

            waiting = httpx2.Client(timeout=60)
            poll = threads.submit(waiting.get, f"{other.url}{PATH}/records?timeout=60000")
            offsets = list(threads.map(send, range(len(texts))))
            again = [
                httpx2.post(
                    other.url + PATH,
                    json={"records": [record(text)]},
                    headers={"Idempotency-Key": f"k{number}"},
                    timeout=60,
                ).json()["offsets"][0]["offset"]
                for number, text in enumerate(texts)
            ]
            seen = poll.result().json()
            waiting.close()

        assert sorted(offsets) == list(range(len(texts)))
        assert again == offsets
        assert seen[0]["offset"] == 0
        assert sorted(values(uri)[1]) == texts
