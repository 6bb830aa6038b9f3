"""versionAsOf, timestampAsOf: a log as one commit left it."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient
from tests.logs import append, catalog
from tests.rest.conftest import client_for, settings_for

PATH = "/topics/t/partitions/1"


@pytest.fixture
def version(log_dir: str) -> int:
    """The version at which partition 1 held 0, 1 and 2; it holds 0 to 4."""
    append(log_dir, 1, range(3), timestamps=[0, 1000, 2000])
    version = catalog(log_dir).image().version
    append(log_dir, 1, range(3, 5), timestamps=[3000, 4000])
    return version


@pytest.fixture
def client(log_dir: str, version: int) -> Iterator[TestClient]:
    with client_for(settings_for(log_dir)) as found:
        yield found


class TestLookups:
    def test_end_where_the_commit_ended(self, client: TestClient, version: int) -> None:
        ends = client.get(f"{PATH}/offsets", params={"versionAsOf": version}).json()

        assert ends == {"beginning_offset": 0, "end_offset": 3}

    @pytest.mark.parametrize(("time", "offset"), [(1500, 2), (2500, -1), (-1, 3)])
    def test_of_a_time(self, client: TestClient, version: int, time: int, offset: int) -> None:
        wanted = {"versionAsOf": version, "timestamp": time}

        assert client.get(f"{PATH}/offsets", params=wanted).json()["offset"] == offset
        assert client.get("/topics/t/offsets", params=wanted).json()[1]["offset"] == offset

    def test_of_many_at_once(self, client: TestClient, version: int) -> None:
        wanted = [{"partition": 1, "timestamp": -1}, {"partition": 1, "offset": 4}]
        found = client.post(
            "/topics/t/offsets:lookup", params={"versionAsOf": version}, json={"lookups": wanted}
        ).json()["lookups"]

        assert [(one["offset"], one["error_code"]) for one in found] == [(3, None), (None, 40002)]

    @pytest.mark.parametrize(("offset", "code"), [(2, 200), (3, 400)])
    def test_of_a_place(self, client: TestClient, version: int, offset: int, code: int) -> None:
        path = f"{PATH}/offsets/{offset}"

        assert client.get(path, params={"versionAsOf": version}).status_code == code
        assert client.get(path).status_code == 200

    def test_of_a_cluster(self, client: TestClient, version: int) -> None:
        cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
        path = f"/v3/clusters/{cluster}{PATH}/offset"
        found = client.get(path, params={"versionAsOf": version}).json()

        assert (found["earliest_offset"], found["latest_offset"]) == (0, 3)

    def test_as_of_a_time(self, client: TestClient) -> None:
        wanted = {"timestampAsOf": "2100-01-01"}

        assert client.get(f"{PATH}/offsets", params=wanted).json()["end_offset"] == 5


class TestFetch:
    def test_ends_there_without_waiting(self, client: TestClient, version: int) -> None:
        wanted = {"versionAsOf": version, "timeout": 60_000}
        found = client.get(f"{PATH}/records", params={**wanted, "offset": 1})

        assert [record["offset"] for record in found.json()] == [1, 2]
        assert found.headers["Sparklog-Log-End-Offset"] == "3"
        assert client.get(f"{PATH}/records", params={**wanted, "offset": 3}).json() == []


class TestRefused:
    @pytest.mark.parametrize(
        "wanted",
        [
            {"versionAsOf": "x"},
            {"versionAsOf": "-1"},
            {"timestampAsOf": "x"},
            {"versionAsOf": "1", "timestampAsOf": "1"},
        ],
    )
    def test_what_is_no_commit(self, client: TestClient, wanted: dict[str, str]) -> None:
        assert client.get(f"{PATH}/offsets", params=wanted).status_code == 422

    def test_a_version_that_is_not_there(self, client: TestClient) -> None:
        found = client.get(f"{PATH}/offsets", params={"versionAsOf": 999})

        assert (found.status_code, "version 999" in found.json()["message"]) == (400, True)

    def test_a_log_that_no_longer_holds_it(
        self, client: TestClient, log_dir: str, version: int
    ) -> None:
        AdminClient(log_dir).delete_records({("t", 1): 2})
        found = client.get(f"{PATH}/offsets", params={"versionAsOf": version})

        assert (found.status_code, "cannot be read any more" in found.text) == (400, True)

    def test_a_topic_that_was_not_there(self, client: TestClient, log_dir: str) -> None:
        assert client.get(f"{PATH}/offsets", params={"versionAsOf": 0}).status_code == 404
