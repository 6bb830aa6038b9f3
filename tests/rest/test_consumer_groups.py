"""Consumer groups in v3: Confluent's shapes, the lag, and what a token may read."""

import time
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient, ConsumerGroupListing
from sparklog.rest.links import Links
from sparklog.rest.schemas.models3 import ResourceMetadata
from tests.group_language import Groups, stable
from tests.group_logs import append_records
from tests.logs import catalog
from tests.rest.conftest import ASSIGNED, client_for, settings_for
from tests.rest.servers import Instance
from tests.rest.tokens import bearer

TOKENS = """
[[tokens]]
name = "reader"
sha256 = "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30"
grants = [{ prefix = "read", scopes = ["read"], resource = "group" }]
"""
"""The hash is that of `reader`."""
NAMES = ("%41", "A", "a#b", "a?b", "a b", "team/app", "a;b=c", "\u00fc", "x" * 300, "lags/1", "A\n")


@pytest.fixture
def found(readers: str, client: TestClient) -> "Found":
    return Found(client)


class Found:
    """What is below the address of consumer groups."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
        self.path = f"/v3/clusters/{cluster}/consumer-groups"

    def __call__(self, path: str = "") -> Any:
        return self.client.get(f"{self.path}{path}").json()

    def code(self, path: str) -> tuple[int, int]:
        answer = self.client.get(f"{self.path}{path}")
        return answer.status_code, answer.json()["error_code"]


def test_any_name_is_found_by_its_links(readers: str, tmp_path: Path) -> None:
    """By a server of its own: the test client decodes a path twice."""
    for number, name in enumerate(NAMES):
        AdminClient(readers).alter_consumer_group_offsets(name, {("t", 0): number})
    groups = Groups()
    ada = groups.member("app/1 %41", group_id="a/b")
    ada.joins()
    groups.passes(3_000)
    assert ada.leads
    ada.syncs({ada.member_id: ASSIGNED}, group_id="a/b")
    append_records(catalog(readers), groups.log, "a/b")
    with Instance(readers, tmp_path) as instance, instance.client() as client:

        def got(link: dict[str, str]) -> Any:
            [url] = link.values()
            return client.get(url).json()

        cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
        listed = client.get(f"/v3/clusters/{cluster}/consumer-groups").json()["data"]
        found = {one["consumer_group_id"]: one for one in listed}
        lags = {name: got(found[name]["lag_summary"]) for name in NAMES}
        assert {name: lag["consumer_group_id"] for name, lag in lags.items()} == {
            name: name for name in NAMES
        }
        assert [lags[name]["total_lag"] for name in NAMES] == [3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]
        [member] = got(found["a/b"]["consumers"])["data"]
        assert client.get(member["metadata"]["self"]).json() == member
        [first] = got(member["assignments"])["data"]
        assert client.get(first["metadata"]["self"]).json() == first
        other = first["metadata"]["self"][:-1] + "7"
        assert client.get(other).json()["error_code"] == 40402


@pytest.mark.parametrize("path", ["/v3/clusters/{}/consumer-groups", "/?group="])
def test_a_group_that_is_deleted_after_the_list_was_made_is_left_out(
    readers: str, client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
    listed = AdminClient.list_consumer_groups

    def deleting(admin: AdminClient) -> Any:
        found = listed(admin)
        monkeypatch.undo()
        AdminClient(readers).delete_consumer_groups(["another"])
        return found

    monkeypatch.setattr(AdminClient, "list_consumer_groups", deleting)
    answer = client.get(path.format(cluster))
    assert (answer.status_code, "another" in answer.text) == (200, False)
    assert "readers" in answer.text


def test_groups_that_come_and_go_are_listed_once(
    readers: str, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
    listed, times = AdminClient.list_consumer_groups, list[int]()

    def with_one_that_is_gone(admin: AdminClient) -> list[ConsumerGroupListing]:
        times.append(1)
        assert len(times) == 1, "listed again"
        return [ConsumerGroupListing("gone", "Empty", True), *listed(admin)]

    monkeypatch.setattr(AdminClient, "list_consumer_groups", with_one_that_is_gone)
    found = client.get(f"/v3/clusters/{cluster}/consumer-groups").json()["data"]
    assert [one["consumer_group_id"] for one in found] == ["another", "readers"]


def test_groups(found: Found) -> None:
    groups = found()
    assert groups["kind"] == "KafkaConsumerGroupList"
    assert [one["consumer_group_id"] for one in groups["data"]] == ["another", "readers"]
    readers = groups["data"][1]
    assert readers == found("/readers")
    told = {key: value for key, value in readers.items() if key not in ("metadata", "cluster_id")}
    below = f"http://127.0.0.1{found.path}/readers"
    assert told == {
        "kind": "KafkaConsumerGroup",
        "consumer_group_id": "readers",
        "is_simple": False,
        "partition_assignor": "range",
        "state": "STABLE",
        "type": "CLASSIC",
        "is_mixed_consumer_group": False,
        "coordinator": None,
        "consumers": {"related": f"{below}/consumers"},
        "lag_summary": {"related": f"{below}/lag-summary"},
    }


def test_groups_come_in_pages(found: Found) -> None:
    first = found("?page_size=1")
    second = found.client.get(first["metadata"]["next"]).json()
    names = [one["consumer_group_id"] for page in (first, second) for one in page["data"]]
    assert (names, second["metadata"]["next"]) == (["another", "readers"], None)


def test_consumers(found: Found) -> None:
    [consumer] = found("/readers/consumers")["data"]
    assert consumer == found("/readers/consumers/first-1")
    assert (consumer["consumer_id"], consumer["instance_id"], consumer["client_id"]) == (
        "first-1",
        "first",
        "ada",
    )


def test_assignments(found: Found) -> None:
    link = found("/readers/consumers/first-1")["assignments"]["related"]
    [one] = found.client.get(link).json()["data"]
    assert (one["kind"], one["topic_name"], one["partition_id"]) == (
        "KafkaConsumerAssignment",
        "t",
        1,
    )
    assert found.client.get(one["partition"]["related"]).json()["partition_id"] == 1
    assert found.client.get(one["lag"]["related"]).json()["lag"] == 3


def test_lags(found: Found) -> None:
    first, second = found("/readers/lags")["data"]
    assert second == found("/readers/lags/t/partitions/1") | {"lag_seconds": second["lag_seconds"]}
    assert (first["current_offset"], first["log_end_offset"], first["lag"]) == (2, 3, 1)
    assert (first["consumer_id"], second["consumer_id"]) == ("", "first-1")
    assert second["lag_seconds"] > first["lag_seconds"] > 1e9
    assert (first["lag_state"], found("/another/lags")["data"][0]["lag_state"]) == (None, "OK")


@pytest.mark.parametrize("path", ["lags", "lags/t/partitions/1", "lag-summary"])
def test_answers_of_lags_are_made_beside_the_event_loop(
    found: Found, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def at(links: Links, path: str, name: str = "") -> ResourceMetadata:
        threads.add(current_thread().name.rpartition("_")[0])
        return made(links, path, name)

    threads: set[str] = set()
    made = Links.at
    monkeypatch.setattr(Links, "at", at)
    found(f"/readers/{path}")

    assert threads == {"bulk"}


def test_a_summary(found: Found) -> None:
    summary = found("/readers/lag-summary")
    told = {key: summary[key] for key in ("max_lag", "total_lag", "max_lag_partition_id")}
    assert told == {"max_lag": 3, "total_lag": 4, "max_lag_partition_id": 1}
    assert found.client.get(summary["max_lag_consumer"]["related"]).json()["client_id"] == "ada"
    assert summary["max_lag_seconds"] > 1e9
    assert (summary["lag_state"], found("/another/lag-summary")["lag_state"]) == (None, "OK")


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("/nobody", (404, 40405)),
        ("/nobody/consumers", (404, 40405)),
        ("/nobody/lags", (404, 40405)),
        ("/readers/consumers/nobody", (404, 40403)),
        ("/readers/lags/t/partitions/3", (404, 40402)),
    ],
)
def test_what_is_not_there_is_told(found: Found, path: str, codes: tuple[int, int]) -> None:
    assert found.code(path) == codes


def test_a_group_that_has_committed_nothing_has_no_summary(
    client: TestClient, log_dir: str
) -> None:
    groups = Groups()
    stable(groups, "ada")
    append_records(catalog(log_dir), groups.log)
    assert Found(client).code("/readers/lag-summary") == (404, 40402)


def test_a_token_reads_its_groups_and_its_topics(readers: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(TOKENS)
    with client_for(settings_for(readers, tokens_file=file)) as client:
        client.headers.update(bearer("reader"))
        found = Found(client)
        assert [one["consumer_group_id"] for one in found()["data"]] == ["readers"]
        assert found("/readers/lags")["data"] == []
        assert found("/readers/consumers/first-1/assignments")["data"] == []
        place = "/readers/consumers/first-1/assignments/t/partitions/1"
        assert found.code(place) == (404, 40402)
        assert found.code("/another") == (403, 40301)


def test_a_long_path_is_refused_at_once(client: TestClient) -> None:
    """Paths are matched before a token is checked; two names of any length took seconds."""
    began = time.process_time()
    answer = client.get(f"/v3/clusters/x/consumer-groups/{'a/consumers/' * 5_000}!")
    assert (answer.status_code, time.process_time() - began < 1) == (404, True)
