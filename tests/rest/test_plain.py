"""Routes that are answered before FastAPI: the same answers, and FastAPI for all that is wrong."""

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from sparklog.rest.app import create_app
from tests.logs import append
from tests.rest.conftest import client_for, settings_for

PATHS = (
    "/topics/t/partitions/1/offsets",
    "/topics/t/partitions/1/offsets?timestamp=2",
    "/topics/t/partitions/1/offsets/1",
    "/topics/t/offsets?timestamp=2",
    "/topics/t/partitions/1/offsets/9",
    "/topics/t/partitions/x/offsets",
    "/topics/t/partitions/9/offsets",
    "/topics/absent/partitions/0/offsets",
    "/topics/t/offsets",
)


BINARY = "application/vnd.kafka.binary.v2+json"
RECORD = b'{"records": [{"value": "YQ=="}]}'
REFUSED = (
    ("/topics/t", BINARY, b"{", 422),
    ("/topics/t", "text/plain", RECORD, 415),
    ("/topics/t", BINARY, RECORD + b" " * 1000, 413),
    ("/topics/absent", BINARY, RECORD, 404),
    ("/topics/t/partitions/9", BINARY, RECORD, 404),
    ("/topics/t/partitions/-1", BINARY, RECORD, 422),
    ("/topics/t/offsets:lookup", "application/json", b"[]", 422),
)


@pytest.fixture
def filled(log_dir: str) -> str:
    append(log_dir, 1, "abc", timestamps=[1, 2, 3])
    return log_dir


def test_are_answered_before_fastapi(
    client: TestClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FastAPI, "__call__", None)

    assert client.get(PATHS[1]).json() == {"partition": 1, "offset": 1, "timestamp": 2}


@pytest.mark.parametrize("path", PATHS)
def test_answer_as_they_do_behind_fastapi(
    client: TestClient, filled: str, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    before = client.get(path)
    monkeypatch.setattr("sparklog.rest.plain.PlainRoutes.takes", lambda *_: False)

    assert told(client.get(path)) == told(before)


@pytest.mark.parametrize(("path", "kind", "body", "status"), REFUSED)
def test_refuse_as_they_do_behind_fastapi(
    log_dir: str, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, body: bytes, status: int
) -> None:
    with client_for(settings_for(log_dir, max_body_bytes=1000)) as client:
        before = client.post(path, content=body, headers={"Content-Type": kind})
        monkeypatch.setattr("sparklog.rest.plain.PlainRoutes.takes", lambda *_: False)
        behind = client.post(path, content=body, headers={"Content-Type": kind})

    assert before.status_code == status
    assert told(behind) == told(before)


def test_fail_as_they_do_behind_fastapi(
    client: TestClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("sparklog.rest.routes.offsets.allowed", fail)
    before = client.get(PATHS[0])
    monkeypatch.setattr("sparklog.rest.plain.PlainRoutes.takes", lambda *_: False)

    assert before.json() == {"error_code": 50002, "message": "the server failed"}
    assert told(client.get(PATHS[0])) == told(before)


def told(answer: Any) -> Any:
    """What a client sees of an answer, but for the request's own id."""
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return answer.status_code, answer.content, headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_leave_other_methods_to_fastapi(client: TestClient, method: str) -> None:
    answer = client.request(method, "/topics/t/offsets:lookup")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_are_found_below_a_path(filled: str) -> None:
    app = Starlette(routes=[Mount("/log", create_app(settings_for(filled)))])
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get(f"/log{PATHS[0]}")

    assert answer.json() == {"beginning_offset": 0, "end_offset": 3}


def test_count_as_requests_of_their_route(client: TestClient, filled: str) -> None:
    client.get(PATHS[0])

    assert (
        'sparklog_requests_total{method="GET",route="/topics/{topic}/partitions/{partition}/offsets"'
        ',status="200"} 1.0' in client.get("/metrics").text
    )
