"""Topics in v2 and v3: shapes, codes, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient
from sparklog.rest.schemas.models3 import PARTITIONS_MAX
from tests.rest.conftest import client_for, settings_for


@pytest.fixture
def cluster(client: TestClient) -> str:
    """The path of the cluster."""
    found = client.get("/v3/clusters").json()["data"][0]
    return f"/v3/clusters/{found['cluster_id']}"


def codes(answer: Any) -> tuple[int, int]:
    return answer.status_code, answer.json()["error_code"]


class TestV2:
    def test_topics_are_names(self, client: TestClient) -> None:
        assert client.get("/topics").json() == ["t"]

    def test_a_topic_has_configs_and_partitions(self, client: TestClient) -> None:
        found = client.get("/topics/t").json()

        replica = {"broker": 0, "leader": True, "in_sync": True}
        assert found["partitions"][3] == {"partition": 3, "leader": 0, "replicas": [replica]}
        assert (found["name"], found["configs"]["retention.ms"]) == ("t", "-1")
        assert client.get("/topics/t/partitions").json() == found["partitions"]
        assert client.get("/topics/t/partitions/3").json() == found["partitions"][3]

    def test_what_is_not_there_is_told(self, client: TestClient) -> None:
        assert codes(client.get("/topics/u")) == (404, 40401)
        assert codes(client.get("/topics/t/partitions/4")) == (404, 40402)

    def test_the_broker_is_the_storage(self, client: TestClient) -> None:
        assert client.get("/brokers").json() == {"brokers": [0]}


class TestRead:
    def test_the_cluster_is_the_log_dir(self, client: TestClient, cluster: str) -> None:
        found = client.get(cluster).json()

        assert found["kind"] == "KafkaCluster"
        assert found["metadata"]["self"] == f"http://127.0.0.1{cluster}"
        assert found["topics"] == {"related": f"http://127.0.0.1{cluster}/topics"}
        assert codes(client.get("/v3/clusters/other")) == (404, 404)

    def test_topics_are_in_envelopes(self, client: TestClient, cluster: str) -> None:
        found = client.get(f"{cluster}/topics").json()

        assert found["kind"] == "KafkaTopicList"
        assert found["metadata"] == {"self": f"http://127.0.0.1{cluster}/topics", "next": None}
        (topic,) = found["data"]
        assert topic == client.get(f"{cluster}/topics/t").json()
        assert (topic["topic_name"], topic["partitions_count"]) == ("t", 4)
        assert topic["metadata"]["resource_name"].endswith("/topic=t")

    def test_partitions_and_their_offsets(self, client: TestClient, cluster: str) -> None:
        found = client.get(f"{cluster}/topics/t/partitions").json()["data"]
        one = client.get(f"{cluster}/topics/t/partitions/2").json()
        ends = client.get(f"{cluster}/topics/t/partitions/2/offset").json()

        assert (one, one["partition_id"]) == (found[2], 2)
        assert (ends["earliest_offset"], ends["latest_offset"]) == (0, 0)
        assert codes(client.get(f"{cluster}/topics/t/partitions/4")) == (404, 40402)


class TestBrokers:
    def test_are_one_which_is_the_storage(self, client: TestClient, cluster: str) -> None:
        link = client.get(cluster).json()["brokers"]["related"]
        (broker,) = client.get(link).json()["data"]

        assert (broker["kind"], broker["broker_id"], broker["host"]) == ("KafkaBroker", 0, None)
        assert client.get(f"{cluster}/brokers/0").json() == broker
        assert codes(client.get(f"{cluster}/brokers/1")) == (404, 404)


class TestCreate:
    def test_answers_201_and_where(self, client: TestClient, cluster: str, log_dir: str) -> None:
        configs = [{"name": "retention.ms", "value": "5"}]
        new = {"topic_name": "new", "partitions_count": 3, "configs": configs}
        answer = client.post(f"{cluster}/topics", json={**new, "replication_factor": 3})

        assert answer.status_code == 201
        assert answer.headers["location"].endswith(f"{cluster}/topics/new")
        (topic,) = AdminClient(log_dir).describe_topics(["new"])
        assert (topic.num_partitions, topic.configs) == (3, {"retention.ms": "5"})

    @pytest.mark.parametrize(
        ("new", "expected"),
        [
            ({"topic_name": "t"}, (400, 40002)),
            ({"topic_name": "__cluster_metadata"}, (400, 40002)),
            ({"topic_name": "a/b"}, (422, 422)),
            ({"topic_name": "a", "partitions_count": 0}, (422, 422)),
            ({"topic_name": "a", "partitions_count": PARTITIONS_MAX + 1}, (422, 422)),
            ({"topic_name": "a", "configs": [{"name": "x", "value": "1"}]}, (400, 40002)),
            ({"topic_name": "a", "partitions": 3}, (422, 422)),
        ],
    )
    def test_what_is_not_allowed_is_refused(
        self, client: TestClient, cluster: str, new: dict[str, Any], expected: tuple[int, int]
    ) -> None:
        assert codes(client.post(f"{cluster}/topics", json=new)) == expected

    def test_can_be_tried(self, client: TestClient, cluster: str) -> None:
        answer = client.post(f"{cluster}/topics", json={"topic_name": "n", "validate_only": True})

        assert answer.status_code == 200
        assert client.get("/topics").json() == ["t"]

    def test_of_the_first_topic_makes_the_log_dir(self, tmp_path: Path) -> None:
        with client_for(settings_for(tmp_path / "new")) as client:
            before = codes(client.get("/v3/clusters"))
            answer = client.post("/v3/clusters/-/topics", json={"topic_name": "first"})

            assert (before, answer.status_code) == ((503, 50302), 201)
            assert client.get("/topics").json() == ["first"]


class TestChange:
    def test_partitions_grow(self, client: TestClient, cluster: str) -> None:
        grown = client.patch(f"{cluster}/topics/t", json={"partitions_count": 6})
        shrunk = client.patch(f"{cluster}/topics/t", json={"partitions_count": 5})

        assert grown.json()["partitions_count"] == 6
        assert codes(shrunk) == (400, 40002)

    def test_a_deleted_topic_is_gone(self, client: TestClient, cluster: str) -> None:
        gone = client.delete(f"{cluster}/topics/t")

        assert (gone.status_code, gone.content) == (204, b"")
        assert "content-type" not in gone.headers
        assert codes(client.get(f"{cluster}/topics/t")) == (404, 40401)
        assert codes(client.delete(f"{cluster}/topics/t")) == (404, 40401)


class TestConfigs:
    def value(self, client: TestClient, cluster: str, name: str = "retention.ms") -> Any:
        found = client.get(f"{cluster}/topics/t/configs/{name}").json()
        return found["value"], found["is_default"]

    def test_are_read(self, client: TestClient, cluster: str) -> None:
        found = client.get(f"{cluster}/topics/t/configs").json()["data"]
        names = [one["name"] for one in found]

        assert names == sorted(names)
        assert self.value(client, cluster) == ("-1", False)
        assert codes(client.get(f"{cluster}/topics/t/configs/nothing")) == (404, 404)

    def test_are_set_and_reset(self, client: TestClient, cluster: str) -> None:
        path = f"{cluster}/topics/t/configs/retention.ms"
        put = client.put(path, json={"value": "77"}).status_code
        changed = self.value(client, cluster)
        deleted = client.delete(path).status_code

        assert (put, changed, deleted) == (204, ("77", False), 204)
        assert self.value(client, cluster) == ("604800000", True)

    def test_change_together_or_not_at_all(self, client: TestClient, cluster: str) -> None:
        path = f"{cluster}/topics/t/configs:alter"
        good = {"name": "retention.ms", "value": "9"}
        bad = {"name": "segment.ms", "value": "-9"}
        both = client.post(path, json={"data": [good, bad]})
        tried = client.post(path, json={"data": [good], "validate_only": True})
        before = self.value(client, cluster)
        done = client.post(
            path, json={"data": [good, {"name": "segment.ms", "operation": "DELETE"}]}
        )

        assert codes(both) == (400, 40002)
        assert (tried.status_code, before) == (204, ("-1", False))
        assert (done.status_code, self.value(client, cluster)) == (204, ("9", False))

    @pytest.mark.parametrize(
        "changes",
        [
            [("segment.ms", "-9", "SET")],
            [("segment.ms", "-9", "SET"), ("segment.ms", None, "DELETE")],
            [("retention.ms", None, "DELETE"), ("retention.ms", "5", "SET")],
            [("nothing", None, "DELETE")],
            [("sparklog.partitioner", "os:abort", "SET")],
        ],
    )
    def test_are_tried_as_they_are_made(
        self, client: TestClient, cluster: str, changes: list[tuple[str, str | None, str]]
    ) -> None:
        data = [dict(zip(("name", "value", "operation"), one, strict=True)) for one in changes]
        path = f"{cluster}/topics/t/configs:alter"
        tried = client.post(path, json={"data": data, "validate_only": True})
        made = client.post(path, json={"data": data})

        assert tried.status_code == made.status_code

    def test_need_a_value_and_stand_once(self, client: TestClient, cluster: str) -> None:
        path = f"{cluster}/topics/t/configs:alter"
        before = self.value(client, cluster)
        value = {"name": "retention.ms", "value": "9"}
        for data in ([{"name": "retention.ms"}], [value, {**value, "operation": "DELETE"}]):
            assert codes(client.post(path, json={"data": data})) == (400, 40002)
        assert self.value(client, cluster) == before

    def test_of_a_new_topic_need_a_value_and_stand_once(
        self, client: TestClient, cluster: str
    ) -> None:
        value = {"name": "retention.ms", "value": "9"}
        for configs in ([{"name": "retention.ms"}], [value, value]):
            new = {"topic_name": "u", "configs": configs}
            assert codes(client.post(f"{cluster}/topics", json=new)) == (400, 40002)
        assert client.get(f"{cluster}/topics/u").status_code == 404

    def test_of_all_topics_are_one_list(self, client: TestClient, cluster: str) -> None:
        client.post(f"{cluster}/topics", json={"topic_name": "u"})
        found = client.get(f"{cluster}/topics/-/configs").json()

        assert found["kind"] == "KafkaTopicConfigList"
        assert found["metadata"]["self"].endswith("/topics/-/configs")
        ours = [client.get(f"{cluster}/topics/{name}/configs").json()["data"] for name in "tu"]
        assert found["data"] == ours[0] + ours[1]

    def test_that_there_are_not_are_told(self, client: TestClient, cluster: str) -> None:
        path = f"{cluster}/topics/t/configs"
        changes = {"data": [{"name": "nothing", "value": "1"}]}
        answers = [
            client.get(f"{path}/nothing"),
            client.put(f"{path}/nothing", json={"value": "1"}),
            client.delete(f"{path}/nothing"),
            client.post(f"{path}:alter", json=changes),
            client.post(f"{path}:alter", json={**changes, "validate_only": True}),
        ]

        assert [codes(answer) for answer in answers] == [(404, 404)] * 3 + [(400, 40002)] * 2

    def test_name_no_code(self, client: TestClient, cluster: str) -> None:
        path = f"{cluster}/topics/t/configs/sparklog.partitioner"

        assert codes(client.put(path, json={"value": "os:abort"})) == (400, 40002)
        assert client.put(path, json={"value": "round-robin"}).status_code == 204
