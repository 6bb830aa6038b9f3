"""Produce of a v3 batch: records with ids, and a report for each."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.logs import rows


@pytest.fixture
def path(client: TestClient) -> str:
    cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster}/topics/t/records:batch"


def test_answers_by_id(client: TestClient, path: str, log_dir: str) -> None:
    entries = [
        {"id": "a", "partition_id": 1, "value": {"type": "STRING", "data": "x"}},
        {"id": "b", "value": {"data": "?"}},
        {"id": "c", "partition_id": 1, "value": {"data": "eQ=="}, "timestamp": 1000},
    ]
    answer = client.post(path, json={"entries": entries})

    told = answer.json()
    assert answer.status_code == 207
    assert [(one["id"], one["offset"]) for one in told["successes"]] == [("a", 0), ("c", 1)]
    assert told["successes"][1] == {
        "id": "c",
        "cluster_id": path.split("/")[3],
        "topic_name": "t",
        "partition_id": 1,
        "offset": 1,
        "timestamp": "1970-01-01T00:00:01.000Z",
        "key": None,
        "value": {"type": "BINARY", "size": 1},
    }
    assert [(one["id"], one["error_code"]) for one in told["failures"]] == [("b", 42206)]
    assert [row.value for row in rows(log_dir)[1]] == [b"x", b"y"]


def test_refuses_each_malformed_record_by_itself(
    client: TestClient, path: str, log_dir: str
) -> None:
    entries: list[Any] = [
        {"id": "a", "partition_id": True},
        {"id": "b", "nothing": 1},
        {"id": "c", "timestamp": -1},
        {"id": "d", "partition_id": 1, "value": {"type": "STRING", "data": "x"}},
    ]
    told = client.post(path, json={"entries": entries}).json()

    assert [one["id"] for one in told["successes"]] == ["d"]
    assert [(one["id"], one["error_code"]) for one in told["failures"]] == [
        ("a", 422),
        ("b", 422),
        ("c", 422),
    ]
    assert [row.value for row in rows(log_dir)[1]] == [b"x"]


def test_that_the_log_refuses_fails_record_by_record(client: TestClient, path: str) -> None:
    entries = [{"id": "a", "partition_id": 9}, {"id": "b", "partition_id": 0}]
    told = client.post(path, json={"entries": entries}).json()

    assert (told["successes"], [one["id"] for one in told["failures"]]) == ([], ["a", "b"])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"entries": []}', 42208),
        ('{"entries": [{"value": {}}]}', 42208),
        ('{"entries": [{"id": "a"}, {"id": "a"}]}', 42208),
        ('{"entries": [{"id": "a b"}]}', 42208),
        ('{"entries": [5]}', 42208),
        (json.dumps({"entries": [{"id": str(n)} for n in range(51)]}), 42208),
        ("{", 42203),
    ],
)
def test_that_is_none_is_refused(client: TestClient, path: str, body: str, code: int) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["error_code"]) == (422, code)
