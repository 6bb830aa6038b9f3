"""isolation_level: to readers of committed records a log ends at the last stable offset."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sparklog.metadata.state.edit import OpenTransaction, TopicEdit
from tests.logs import append, catalog
from tests.rest.conftest import client_for, settings_for

PATH = "/topics/t/partitions/1"
COMMITTED = {"isolation_level": "read_committed"}


def leave_open(log_dir: str, *first_offsets: int) -> None:
    """Let transactions be open in partition 1 from these offsets on."""
    found = catalog(log_dir)
    transactions = tuple(OpenTransaction(7, offset) for offset in first_offsets)
    edit = TopicEdit(transactions={1: transactions})
    found.commit(found.topic("t"), lambda _: edit, operation="TEST")


@pytest.fixture
def client(log_dir: str) -> Iterator[TestClient]:
    """Partition 1 holds 0 to 9, a second apart each; a transaction is open from 6 on."""
    append(log_dir, 1, range(10), timestamps=[1000 * n for n in range(10)])
    leave_open(log_dir, 6)
    with client_for(settings_for(log_dir)) as found:
        yield found


def both(client: TestClient, path: str, **query: Any) -> list[Any]:
    """The answers of both levels."""
    return [client.get(path, params={**query, **level}).json() for level in ({}, COMMITTED)]


class TestEnds:
    def test_of_a_partition(self, client: TestClient) -> None:
        found = both(client, f"{PATH}/offsets")

        assert found == [{"beginning_offset": 0, "end_offset": end} for end in (10, 6)]

    @pytest.mark.parametrize(
        ("timestamp", "offsets"), [(-1, [10, 6]), (-2, [0, 0]), (5000, [5, 5]), (7000, [7, -1])]
    )
    def test_by_time(self, client: TestClient, timestamp: int, offsets: list[int]) -> None:
        one = both(client, f"{PATH}/offsets", timestamp=timestamp)
        every = both(client, "/topics/t/offsets", timestamp=timestamp)
        body = {"lookups": [{"partition": 1, "timestamp": timestamp}]}
        posted = [
            client.post("/topics/t/offsets:lookup", json=body, params=level).json()["lookups"][0]
            for level in ({}, COMMITTED)
        ]

        assert [answer["offset"] for answer in one] == offsets
        assert [answer[1]["offset"] for answer in every] == offsets
        assert [answer["offset"] for answer in posted] == offsets

    def test_in_v3(self, client: TestClient) -> None:
        cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
        found = both(client, f"/v3/clusters/{cluster}{PATH}/offset")

        assert [answer["latest_offset"] for answer in found] == [10, 6]

    def test_on_the_page(self, client: TestClient) -> None:
        assert '<td class="n">6</td><td class="n">10</td>' in client.get("/?topic=t").text

    @pytest.mark.parametrize("level", ["serializable", ""])
    def test_of_another_level_are_refused(self, client: TestClient, level: str) -> None:
        answer = client.get(f"{PATH}/offsets?isolation_level={level}")

        assert (answer.status_code, answer.json()["error_code"]) == (422, 422)


class TestFetch:
    def offsets(self, client: TestClient, **query: Any) -> list[int]:
        answer = client.get(f"{PATH}/records", params={"timeout": 0, **COMMITTED, **query})
        assert answer.status_code == 200, answer.text
        assert answer.headers["sparklog-last-stable-offset"] == "6"
        return [record["offset"] for record in answer.json()]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({}, range(6)),
            ({"offset": 4}, range(4, 6)),
            ({"offset": 8}, range(0)),
            ({"timestamp": 5000}, range(5, 6)),
            ({"timestamp": 7000}, range(0)),
        ],
    )
    def test_ends_there(self, client: TestClient, query: dict[str, Any], expected: range) -> None:
        assert self.offsets(client, **query) == list(expected)

    def test_waits_for_the_end_of_the_transaction(self, client: TestClient, log_dir: str) -> None:
        query: dict[str, str | int] = {"offset": 6, "timeout": 20_000, **COMMITTED}
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(client.get, f"{PATH}/records", params=query)
            leave_open(log_dir)

            assert [one["offset"] for one in waiting.result().json()] == [6, 7, 8, 9]
