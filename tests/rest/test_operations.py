"""What operators see: health, metrics, logs, limits; and errors without traces."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient
from sparklog.errors import StorageError
from sparklog.group_commit.share import Written
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.rest.app import create_app
from sparklog.rest.service import Service
from sparklog.service import ready as service_ready
from sparklog.service.logs import JsonFormatter, set_up_logs
from sparklog.service.ready import NO_ANSWER
from tests.logs import append
from tests.rest.conftest import TickingClock, client_for, settings_for
from tests.rest.tokens import bearer, token_file


@pytest.fixture
def small(log_dir: str) -> Iterator[TestClient]:
    with client_for(settings_for(log_dir, max_body_bytes=1000)) as client:
        yield client


class TestHealth:
    def test_is_told(self, client: TestClient) -> None:
        assert client.get("/healthy").json() == client.get("/ready").json() == {"status": "ok"}

    @pytest.mark.parametrize("path", ["/healthy", "/ready"])
    def test_is_told_without_a_body(self, client: TestClient, path: str) -> None:
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")

    def test_is_told_while_lookups_wait(self, client: TestClient) -> None:
        service: Service = client.app.state.service  # type: ignore[attr-defined] # a FastAPI's
        released = Event()
        waits = [
            service._lookups.submit(released.wait, 60)
            for _ in range(service.settings.lookup_threads)
        ]
        answer, are_waiting = client.get("/ready"), not any(wait.done() for wait in waits)
        released.set()

        assert (answer.status_code, are_waiting) == (200, True)

    def test_of_a_storage_that_does_not_answer_is_told_soon(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        may_answer = Event()
        monkeypatch.setattr(FollowedTopics, "image", lambda *_: may_answer.wait(60))
        monkeypatch.setattr(service_ready, "WAIT_S", 0.01)
        with client_for(settings_for(log_dir, storage_timeout_ms=1)) as client:
            ready, topics = client.get("/ready"), client.get("/topics")
            may_answer.set()

        assert (ready.status_code, ready.json()["message"]) == (503, NO_ANSWER)
        assert (topics.status_code, topics.json()["error_code"]) == (503, 50302)

    def test_of_a_directory_that_is_no_log_dir(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        with client_for(settings_for(tmp_path)) as client:
            ready, topics = client.get("/ready"), client.get("/topics")

        assert (ready.status_code, ready.json()["error_code"]) == (503, 50302)
        assert topics.status_code == 503
        assert str(tmp_path) not in ready.text + topics.text


class TestThreads:
    """The answer to a client whose request gets no thread in time."""

    @pytest.fixture
    def timeout_ms(self) -> int:
        return 30_000

    @pytest.fixture
    def impatient(self, log_dir: str, timeout_ms: int) -> Iterator[TestClient]:
        with client_for(settings_for(log_dir, storage_timeout_ms=timeout_ms)) as client:
            yield client

    @pytest.fixture
    def occupied(self, impatient: TestClient) -> Iterator[Callable[..., None]]:
        """Lets all threads for fetches and lookups wait until the test is over."""
        service: Service = impatient.app.state.service  # type: ignore[attr-defined] # a FastAPI's
        released = Event()

        def occupy() -> None:
            for pool in (service._bulk, service._lookups):
                for _ in range(8):
                    pool.submit(released.wait, 60)

        yield occupy
        released.set()

    @pytest.mark.parametrize("timeout_ms", [10])
    def test_try_again(self, impatient: TestClient, occupied: Callable[..., None]) -> None:
        occupied()
        answer = impatient.get("/topics/t/partitions/0/records?timeout=0")

        assert (answer.status_code, answer.json()["error_code"]) == (429, 42901)
        assert answer.json()["message"].endswith("the service is busy")
        assert answer.headers["retry-after"] == "1"

    def test_not_so_of_records_that_are_committed(
        self,
        impatient: TestClient,
        occupied: Callable[..., None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        produce = Service.produce

        async def produce_and_occupy(*given: Any) -> Written:
            written = await produce(*given)
            occupied()
            return written

        monkeypatch.setattr(Service, "produce", produce_and_occupy)
        answer = impatient.post("/topics/t", json={"records": [{"value": "YWFh" * 5000}]})

        assert answer.status_code == 200

    def test_not_so_of_a_topic_that_is_created(
        self,
        impatient: TestClient,
        occupied: Callable[..., None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        create = AdminClient.create_topics

        def create_and_occupy(*given: Any, **options: Any) -> Any:
            occupied()
            return create(*given, **options)

        monkeypatch.setattr(AdminClient, "create_topics", create_and_occupy)
        answer = impatient.post("/v3/clusters/-/topics", json={"topic_name": "new"})

        assert answer.status_code == 201


class TestMetrics:
    def test_count_requests_commits_and_bytes(self, client: TestClient, log_dir: str) -> None:
        for _ in range(2):
            client.post("/topics/t", json={"records": [{"value": "YQ=="}]})
        client.get("/topics/t/partitions/0/offsets")
        client.get("/nothing")
        text = client.get("/metrics").text

        route = 'method="POST",route="/topics/{topic}"'
        assert f'sparklog_requests_total{{{route},status="200"}} 2.0' in text
        assert 'sparklog_requests_total{method="(none)",route="(none)",status="404"} 1.0' in text
        assert f"sparklog_request_seconds_count{{{route}}} 2.0" in text
        assert "sparklog_commits_total 2.0" in text
        assert "sparklog_produced_records_total 2.0" in text
        assert "sparklog_commit_conflicts_total 0.0" in text
        assert "sparklog_metadata_age_seconds 0.0" in text
        assert 'sparklog_bytes_total{direction="in"}' in text


class TestKafkaMetrics:
    def test_tell_topics_and_groups(self, client: TestClient, log_dir: str) -> None:
        AdminClient(log_dir).alter_consumer_group_offsets("readers", {("t", 0): 0})
        answer = client.get("/metrics/kafka")

        assert answer.headers["content-type"].startswith("text/plain")
        assert 'kafka_topic_partitions{topic="t"} 4.0' in answer.text
        assert 'kafka_consumergroup_members{consumergroup="readers"} 0.0' in answer.text

    def test_tell_what_a_token_may_read(self, log_dir: str, tmp_path: Path) -> None:
        AdminClient(log_dir).alter_consumer_group_offsets("readers", {("t", 0): 0})
        tokens = token_file(tmp_path, {"reader": [("t", ["read"])], "nobody": []})
        with client_for(settings_for(log_dir, tokens_file=tokens)) as client:
            text = client.get("/metrics/kafka", headers=bearer("reader")).text
            nothing = client.get("/metrics/kafka", headers=bearer("nobody")).text

        assert 'topic="t"' in text
        assert "readers" not in text
        assert 'topic="t"' not in nothing


class TestRequestIds:
    @pytest.mark.parametrize("given", ["abc-1", None, "bad id", "x" * 65])
    def test_come_back(self, client: TestClient, given: str | None) -> None:
        answer = client.get("/healthy", headers={"X-Request-Id": given} if given else {})

        found = answer.headers["x-request-id"]
        assert (found == given) is (given == "abc-1")
        assert 0 < len(found) <= 64

    def test_stand_in_the_log(
        self, client: TestClient, log_dir: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        logging.getLogger("sparklog").propagate = True
        with caplog.at_level(logging.INFO, "sparklog.access"):
            client.get("/topics/t", headers={"X-Request-Id": "me"})

        with (
            client_for(settings_for(log_dir, access_log=False)) as quiet,
            caplog.at_level(logging.INFO, "sparklog.access"),
        ):
            quiet.get("/topics/t")

        (record,) = [one for one in caplog.records if one.name == "sparklog.access"]
        fields: dict[str, Any] = vars(record)["fields"]
        assert (fields["request_id"], fields["status"], fields["path"]) == ("me", 200, "/topics/t")

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/topics/t/offsets:lookup", {"lookups": [{"partition": 0, "offset": 0}]}),
            ("/topics", {}),
        ],
    )
    def test_stand_in_the_log_with_the_details_of_an_error(
        self,
        client: TestClient,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
        path: str,
        body: dict[str, Any],
    ) -> None:
        def fail(*_: object) -> None:
            raise StorageError("the disk is gone")

        logging.getLogger("sparklog").propagate = True
        monkeypatch.setattr("sparklog.rest.routes.offsets._place", fail)
        monkeypatch.setattr(FollowedTopics, "topics", fail)
        headers = {"X-Request-Id": "me"}
        client.request("POST" if body else "GET", path, json=body or None, headers=headers)

        [record] = [one for one in caplog.records if "the disk is gone" in one.getMessage()]
        assert vars(record)["fields"] == {"request_id": "me"}


class TestLogs:
    def test_are_json(self) -> None:
        record = logging.makeLogRecord({"name": "n", "levelname": "INFO", "msg": "m"})
        record.fields = {"a": 1}
        line = json.loads(JsonFormatter().format(record))

        assert (line["logger"], line["level"], line["message"], line["a"]) == ("n", "info", "m", 1)

    def test_have_traces(self) -> None:
        try:
            raise ValueError("why")
        except ValueError as error:
            record = logging.makeLogRecord({"exc_info": (type(error), error, None)})

        assert "ValueError: why" in json.loads(JsonFormatter().format(record))["trace"]

    def test_are_set_up(self) -> None:
        loggers = [logging.getLogger(name) for name in ("sparklog", "uvicorn", "asyncio")]
        before = [(one.handlers, one.level, one.propagate) for one in loggers]
        set_up_logs("warning")
        levels = [one.level for one in loggers]
        for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate
            one.setLevel(level)

        assert levels == [logging.WARNING] * 3


class TestLimits:
    @pytest.mark.parametrize("path", ["/topics/t", "/topics/t/offsets:lookup"])
    def test_a_body_has_a_size(self, small: TestClient, path: str) -> None:
        told = small.post(path, content=b"x" * 1001)
        streamed = small.post(
            path,
            content=(b"x" * 100 for _ in range(11)),
            headers={"Content-Type": "application/json"},
        )

        assert (told.status_code, streamed.status_code) == (413, 413)
        assert told.json()["message"] == "a body has at most 1000 bytes"

    def test_a_length_is_a_number(self, small: TestClient) -> None:
        answer = small.get("/healthy", headers={"Content-Length": "ten"})

        assert answer.status_code == 413


class TestUnexpected:
    def test_is_told_without_a_trace(
        self, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: Service, topic: str) -> None:
            raise RuntimeError(f"secret of {topic}")

        monkeypatch.setattr(Service, "reader", fail)
        answer = client.get("/topics/t/partitions/0/records")

        assert answer.json() == {"error_code": 50002, "message": "the server failed"}
        assert answer.headers["x-request-id"]

    def test_methods_are_told(self, client: TestClient) -> None:
        answer = client.put("/topics")

        assert (answer.status_code, answer.json()["error_code"]) == (405, 405)
        assert answer.headers["allow"] == "GET, HEAD"
        assert client.put("/topics/t").headers["allow"] == "GET, HEAD, POST"

    @pytest.mark.parametrize("path", ["/topics", "/topics/t/partitions/0/offsets", "/topics/none"])
    def test_head_is_get_without_a_body(self, client: TestClient, log_dir: str, path: str) -> None:
        append(log_dir, 0, "a")
        got, answer = client.get(path), client.head(path)

        assert (answer.status_code, answer.content) == (got.status_code, b"")
        assert answer.headers["content-length"] == str(len(got.content))


class TestPage:
    def test_lists_topics_and_partitions(self, client: TestClient, log_dir: str) -> None:
        append(log_dir, 2, range(7))
        listed, one = client.get("/"), client.get("/?topic=t")

        assert '<a href="/?topic=t">t</a>' in listed.text
        assert "<td>2</td>" in one.text
        assert "default-src 'none'" in listed.headers["content-security-policy"]

    def test_shows_records_from_a_time_on(self, client: TestClient, log_dir: str) -> None:
        append(log_dir, 0, ["before3", "<b>new</b>", "z" * 500], timestamps=[0, 5000, 6000])
        append(log_dir, 1, ["other"], timestamps=[4000])
        text = client.get("/?topic=t&time=1970-01-01T00:00:03Z").text

        assert ("before3" in text, "&lt;b&gt;new" in text, "other" in text) == (False, True, True)
        assert "1970-01-01T00:00:05.000Z" in text
        assert "z" * 200 + "…" in text
        assert "z" * 201 not in text

    def test_is_no_part_of_another_page(self, client: TestClient) -> None:
        asked = [
            client.get("/", headers={"Sec-Fetch-Dest": kind}).status_code
            for kind in ("document", "image", "iframe")
        ]

        assert asked == [200, 403, 403]

    def test_that_takes_too_long_ends(self, log_dir: str) -> None:
        append(log_dir, 0, "a")
        app = create_app(settings_for(log_dir, lookup_timeout_ms=3), clock=TickingClock())
        with TestClient(app, base_url="http://127.0.0.1") as slow:
            answer = slow.get("/?topic=t&time=0")

        assert answer.status_code == 503
        assert "not looked up within 3 ms" in answer.text

    def test_says_when_there_is_none(self, client: TestClient, tmp_path: Path) -> None:
        assert "no record from then on" in client.get("/?topic=t&time=5").text
        with client_for(settings_for(tmp_path / "new")) as empty:
            assert "no topic yet" in empty.get("/").text

    def test_shows_no_more_than_a_few(self, client: TestClient, log_dir: str) -> None:
        from sparklog.admin import AdminClient, NewTopic

        AdminClient(log_dir).create_topics([NewTopic("many", 60, {"retention.ms": "-1"})])
        records = [{"value": "", "partition": number, "timestamp": 5} for number in range(60)]
        client.post("/topics/many", json={"records": records})

        assert client.get("/?topic=many&time=0").text.count("1970-01-01") == 50

    @pytest.mark.parametrize(("query", "status"), [("topic=u", 404), ("topic=t&time=noon", 422)])
    def test_tells_what_is_wrong(self, client: TestClient, query: str, status: int) -> None:
        answer = client.get(f"/?{query}")

        assert answer.status_code == status
        assert 'id="problem"' in answer.text
