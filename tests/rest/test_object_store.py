"""Over an object store an answer may be a moment old, but not one of an end or of nothing."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient, NewTopic
from sparklog.storage.local import LocalFiles
from tests.logs import FOREVER, append
from tests.rest.conftest import client_for, settings_for

PATH = "/topics/t/partitions/1"


@pytest.fixture
def client(log_dir: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A client of a service that has looked just now, and need not look again for an hour.

    It saw partition 1 with 0 to 3, a second apart each; 4 and 5 came later.
    """
    monkeypatch.setattr(LocalFiles, "is_local", False)
    append(log_dir, 1, range(4), timestamps=[1000 * n for n in range(4)])
    with client_for(settings_for(log_dir, poll_interval_ms=3_600_000)) as found:
        found.get(f"{PATH}/offsets")
        append(log_dir, 1, range(4, 6), timestamps=[4000, 5000])
        yield found


def test_an_answer_may_be_old(client: TestClient) -> None:
    assert client.get(f"{PATH}/offsets/2").json()["segment_next_offset"] == 4
    assert client.get(f"{PATH}/offsets?timestamp=3000").json()["offset"] == 3


@pytest.mark.parametrize(
    ("path", "offset"),
    [
        ("offsets?timestamp=5000", 5),
        ("offsets?timestamp=-1", 6),
        ("offsets?timestamp=9999", -1),
        ("offsets/5", 5),
    ],
)
def test_an_offset_that_is_not_there_is_looked_for_again(
    client: TestClient, path: str, offset: int
) -> None:
    assert client.get(f"{PATH}/{path}").json()["offset"] == offset


def test_the_ends_are_the_newest(client: TestClient) -> None:
    cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
    of_v3 = client.get(f"/v3/clusters/{cluster}{PATH}/offset").json()

    assert of_v3["latest_offset"] == 6
    assert client.get("/topics/t/offsets?timestamp=-1").json()[1]["offset"] == 6


def test_beyond_the_newest_end_is_refused(client: TestClient) -> None:
    for path in ("offsets/6", "records?offset=7"):
        answer = client.get(f"{PATH}/{path}")

        assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)


def test_a_fetch_at_the_end_looks_again(client: TestClient) -> None:
    path = f"{PATH}/records?timeout=0"
    found = [client.get(f"{path}&{start}").json() for start in ("offset=4", "timestamp=4500")]

    assert [[record["offset"] for record in records] for records in found] == [[4, 5], [5]]


def test_a_topic_that_is_not_known_is_looked_for_again(client: TestClient, log_dir: str) -> None:
    AdminClient(log_dir).create_topics([NewTopic("u", 2, FOREVER)])

    assert client.get("/topics/u/partitions/0/offsets/0").json()["error_code"] == 40002
    assert client.get("/topics/v/partitions/0/offsets/0").json()["error_code"] == 40401
