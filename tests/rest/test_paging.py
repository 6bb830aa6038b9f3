"""Pages of v3 lists."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient, NewTopic
from sparklog.rest.parameters import NAME_MAX

NAMES = ["a", "b", "c", "t"]


@pytest.fixture
def cluster(client: TestClient, log_dir: str) -> str:
    """The path of a cluster with some topics."""
    AdminClient(log_dir).create_topics([NewTopic(name) for name in "cab"])
    found = client.get("/v3/clusters").json()["data"][0]
    return f"/v3/clusters/{found['cluster_id']}"


def pages(client: TestClient, path: str, field: str) -> list[list[Any]]:
    """The field of the elements of all pages, along the links to the next."""
    found, following = [], path
    while following:
        answer = client.get(following).json()
        found.append([one[field] for one in answer["data"]])
        following = answer["metadata"]["next"]
    return found


class TestPages:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("", [NAMES]),
            ("?page_size=1", [["a"], ["b"], ["c"], ["t"]]),
            ("?page_size=3", [["a", "b", "c"], ["t"]]),
            ("?page_size=4", [NAMES]),
        ],
    )
    def test_hold_every_topic_once(
        self, client: TestClient, cluster: str, query: str, expected: list[list[str]]
    ) -> None:
        assert pages(client, f"{cluster}/topics{query}", "topic_name") == expected

    def test_hold_every_group_whatever_its_name(
        self, client: TestClient, cluster: str, log_dir: str
    ) -> None:
        names = [letter * NAME_MAX for letter in ("a", "é", "日")]
        for name in names:
            AdminClient(log_dir).alter_consumer_group_offsets(name, {("t", 0): 0})

        found = pages(client, f"{cluster}/consumer-groups?page_size=1", "consumer_group_id")
        assert found == [[name] for name in names]

    def test_hold_every_partition_once(self, client: TestClient, cluster: str) -> None:
        found = pages(client, f"{cluster}/topics/t/partitions?page_size=3", "partition_id")

        assert found == [[0, 1, 2], [3]]

    def test_hold_every_config_once(self, client: TestClient, cluster: str) -> None:
        path = f"{cluster}/topics/t/configs"
        (whole,) = pages(client, path, "name")
        found = pages(client, f"{path}?page_size=10", "name")

        assert [name for page in found for name in page] == whole
        assert {len(page) for page in found[:-1]} == {10}

    def test_of_all_configs_are_of_some_topics(self, client: TestClient, cluster: str) -> None:
        path = f"{cluster}/topics/-/configs?page_size=3"
        found = pages(client, path, "topic_name")

        assert [sorted(set(page)) for page in found] == [["a", "b", "c"], ["t"]]

    def test_go_on_behind_a_topic_that_is_gone(
        self, client: TestClient, cluster: str, log_dir: str
    ) -> None:
        first = client.get(f"{cluster}/topics?page_size=2").json()
        AdminClient(log_dir).delete_topics(["b"])
        AdminClient(log_dir).create_topics([NewTopic("aa")])

        assert pages(client, first["metadata"]["next"], "topic_name") == [["c", "t"]]

    @pytest.mark.parametrize(
        "query",
        ["page_size=0", "page_size=10001", "page_token=x", "page_token=MQ", "page_token=%C3%A9"],
    )
    def test_that_are_none_are_refused(self, client: TestClient, cluster: str, query: str) -> None:
        answer = client.get(f"{cluster}/topics?{query}")

        assert (answer.status_code, answer.json()["error_code"]) == (422, 422)
