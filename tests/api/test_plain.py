"""Routes that are answered before FastAPI: the same answers, and FastAPI for all that is wrong."""

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from api.app import create_app
from tests.api.conftest import settings_for
from tests.logs import append

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


@pytest.fixture
def filled(log_dir: str) -> str:
    append(log_dir, 1, "abc", timestamps=[1, 2, 3])
    return log_dir


def test_are_answered_before_fastapi(
    client: TestClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unexpected(*_: Any) -> None:
        pytest.fail("this is what plain routes go without")

    monkeypatch.setattr(FastAPI, "__call__", unexpected)

    assert client.get(PATHS[1]).json() == {"partition": 1, "offset": 1, "timestamp": 2}


@pytest.mark.parametrize("path", PATHS)
def test_answer_as_they_do_behind_fastapi(
    client: TestClient, filled: str, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    before = client.get(path)
    monkeypatch.setattr("api.plain.PlainRoutes.takes", lambda *_: False)
    behind = client.get(path)

    assert (before.status_code, before.content) == (behind.status_code, behind.content)
    unlike = {"x-request-id"}
    assert {n: v for n, v in before.headers.items() if n not in unlike} == {
        n: v for n, v in behind.headers.items() if n not in unlike
    }


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
