"""Who may ask, for what; and that nobody beyond this machine may without a token."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sparklog.errors import InvalidOptionError
from sparklog.metadata.history.read import history
from sparklog.rest.server import server_of
from tests.logs import FOREVER, catalog, new_topic
from tests.rest.conftest import client_for, settings_for
from tests.rest.tokens import bearer, root_file, token_file

GRANTS = {
    "reader": [("", ["read"])],
    "flights": [("flights", ["read", "write"]), ("t", ["admin"])],
    "nobody": [],
}
PRODUCE = {"records": [{"value": ""}]}


@pytest.fixture
def guarded(log_dir: str, tmp_path: Path) -> Iterator[TestClient]:
    new_topic(log_dir, "flights", 1, FOREVER)
    tokens = token_file(tmp_path, GRANTS)
    with client_for(settings_for(log_dir, tokens_file=tokens)) as client:
        yield client


class TestTokens:
    @pytest.mark.parametrize("path", ["/topics", "/topics/t", "/metrics", "/brokers"])
    @pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "reader", "Basic cmVhZGVy"])
    def test_are_needed(self, guarded: TestClient, path: str, header: str | None) -> None:
        answer = guarded.get(path, headers={} if header is None else {"Authorization": header})

        assert (answer.status_code, answer.json()["error_code"]) == (401, 40101)
        assert answer.headers["www-authenticate"] == 'Bearer realm="sparklog"'
        assert "send `Authorization: Bearer" in answer.json()["message"]

    @pytest.mark.parametrize("path", ["/healthy", "/ready", "/openapi.json"])
    def test_are_not_needed_to_ask_whether_all_is_well(
        self, guarded: TestClient, path: str
    ) -> None:
        assert guarded.get(path).status_code == 200

    @pytest.mark.parametrize(
        ("token", "method", "path", "status"),
        [
            ("reader", "GET", "/topics/t/partitions/0/offsets", 200),
            ("reader", "POST", "/topics/t", 403),
            ("flights", "POST", "/topics/flights", 200),
            ("flights", "GET", "/topics/t", 403),
            ("flights", "GET", "/topics/unknown", 403),
            ("flights", "DELETE", "/v3/clusters/x/topics/flights", 403),
            ("flights", "DELETE", "/v3/clusters/x/topics/t", 404),
            ("nobody", "GET", "/topics/t", 403),
            ("nobody", "GET", "/brokers", 200),
        ],
    )
    def test_allow_what_they_grant(
        self, guarded: TestClient, token: str, method: str, path: str, status: int
    ) -> None:
        body = PRODUCE if method == "POST" else None
        answer = guarded.request(method, path, json=body, headers=bearer(token))

        assert answer.status_code == status
        assert status != 403 or answer.json()["error_code"] == 40301

    def test_are_named_in_the_history(self, guarded: TestClient, log_dir: str) -> None:
        (cluster,) = guarded.get("/v3/clusters", headers=bearer("flights")).json()["data"]
        url = f"/v3/clusters/{cluster['cluster_id']}/topics"
        for path, method, asked in (
            ("", "POST", {"topic_name": "t2"}),
            ("/t2", "PATCH", {"partitions_count": 2}),
            ("/t2/configs:alter", "POST", {"data": [{"name": "retention.ms", "value": "9"}]}),
            ("/t2", "DELETE", None),
        ):
            answer = guarded.request(method, url + path, json=asked, headers=bearer("flights"))
            assert answer.is_success
        found = [*islice(history(catalog(log_dir).log), 4)]

        assert {one.parameters["principal"] for one in found} == {"flights"}

    def test_who_may_create_nothing_need_not_say_what(self, guarded: TestClient) -> None:
        answer = guarded.post("/v3/clusters/-/topics", content="{", headers=bearer("reader"))

        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)

    def test_of_a_new_file_are_known_without_a_restart(
        self, guarded: TestClient, tmp_path: Path
    ) -> None:
        token_file(tmp_path, {"another token": [("", ["read"])]})
        answers = [
            guarded.get("/topics", headers=bearer(token)).status_code
            for token in ("another token", "reader")
        ]

        assert answers == [200, 401]

    def test_see_the_topics_they_may_read(self, guarded: TestClient) -> None:
        cluster = guarded.get("/v3/clusters", headers=bearer("nobody")).json()["data"][0]
        path = f"/v3/clusters/{cluster['cluster_id']}/topics"

        found = {token: guarded.get("/topics", headers=bearer(token)).json() for token in GRANTS}
        listed = guarded.get(path, headers=bearer("flights")).json()["data"]
        assert found == {"reader": ["flights", "t"], "flights": ["flights"], "nobody": []}
        assert [one["topic_name"] for one in listed] == ["flights"]

    def test_are_needed_for_metrics(self, guarded: TestClient) -> None:
        statuses = [guarded.get("/metrics", headers=bearer(token)).status_code for token in GRANTS]

        assert statuses == [200] * len(GRANTS)
        assert guarded.get("/metrics").status_code == 401


class TestPage:
    @pytest.mark.parametrize(
        ("header", "status"),
        [
            ("Basic OnJlYWRlcg==", 200),
            ("Bearer reader", 200),
            ("Basic Ondyb25n", 401),
            ("Basic ?", 401),
            ("Digest x", 401),
        ],
    )
    def test_takes_a_token_as_a_password(
        self, guarded: TestClient, header: str, status: int
    ) -> None:
        answer = guarded.get("/", headers={"Authorization": header})

        assert answer.status_code == status
        assert status == 200 or answer.headers["www-authenticate"] == 'Basic realm="sparklog"'

    def test_shows_what_the_token_may_read(self, guarded: TestClient) -> None:
        hidden = guarded.get("/?topic=t", headers=bearer("flights"))
        listed = guarded.get("/", headers=bearer("flights")).text

        assert (hidden.status_code, "no read access" in hidden.text) == (403, True)
        assert (">flights</a>" in listed, ">t</a>" in listed) == (True, False)


class TestListening:
    def test_beyond_this_machine_needs_tokens(self, log_dir: str, tmp_path: Path) -> None:
        open_to_all = settings_for(log_dir, host="0.0.0.0")
        guarded = settings_for(log_dir, host="0.0.0.0", tokens_file=root_file(tmp_path))

        with pytest.raises(InvalidOptionError, match="0.0.0.0 listens beyond this machine"):
            server_of(open_to_all)
        assert server_of(guarded).config.host == "0.0.0.0"

    def test_a_foreign_host_name_is_refused(self, client: TestClient) -> None:
        answers = [
            client.get("/topics", headers={"Host": host}).status_code
            for host in ("localhost:8082", "[::1]:80", "[::1]", "evil.example", "127.0.0.1.evil")
        ]

        assert answers == [200, 200, 200, 403, 403]

    def test_an_allowed_host_is_found_in_any_case(self, log_dir: str) -> None:
        with client_for(settings_for(log_dir, allowed_hosts="Log.Example")) as client:
            answers = [
                client.get("/topics", headers={"Host": host}).status_code
                for host in ("log.example:80", "Log.Example", "localhost")
            ]

        assert answers == [200, 200, 403]

    def test_a_request_from_beyond_is_refused(self, log_dir: str) -> None:
        app = client_for(settings_for(log_dir)).app

        with TestClient(app, base_url="http://192.0.2.1") as client:
            assert client.get("/topics").json()["message"].startswith("without tokens only this")
