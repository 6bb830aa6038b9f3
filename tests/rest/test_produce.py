"""Produce: v2 and v3 bodies in, offsets out, records as they were sent."""

import asyncio
import base64
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.config.times import iso_time
from sparklog.errors import CommitOutcomeUnknownError
from sparklog.group_commit.rows import Rows
from sparklog.model import TopicPartition
from sparklog.rest.payloads.records import RECORDS_MAX
from sparklog.rest.routes import produce3
from sparklog.rest.service import Service
from tests.logs import FOREVER, rows
from tests.rest.conftest import settings_for

JSON_TYPE = {"Content-Type": "application/vnd.kafka.json.v2+json"}


@pytest.fixture
def path(client: TestClient) -> str:
    """Where v3 records go."""
    cluster = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster}/topics/t/records"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def produce(client: TestClient, *records: dict[str, Any], path: str = "/topics/t") -> Any:
    answer = client.post(path, json={"records": records})
    assert answer.status_code == 200, answer.text
    return [(one["partition"], one["offset"]) for one in answer.json()["offsets"]]


def test_records_that_are_not_committed_in_time_may_be_yet(log_dir: str) -> None:
    async def scenario() -> None:
        service = Service(settings_for(log_dir, storage_timeout_ms=1), SystemClock())
        service.group_commit.produce = lambda *_: asyncio.sleep(60)  # type: ignore[method-assign, assignment] # never
        with pytest.raises(CommitOutcomeUnknownError, match="not committed within 1 ms"):
            await service.produce("t", Rows(), None)

    asyncio.run(scenario())


class TestV2:
    def test_answers_in_confluents_shape(self, client: TestClient) -> None:
        answer = client.post("/topics/t", json={"records": [{"value": b64("a"), "partition": 3}]})

        assert answer.headers["content-type"] == "application/vnd.kafka.v2+json"
        assert answer.json() == {
            "offsets": [{"partition": 3, "offset": 0, "error_code": None, "error": None}],
            "key_schema_id": None,
            "value_schema_id": None,
        }

    def test_offsets_are_those_of_the_records(self, client: TestClient, log_dir: str) -> None:
        sent = [{"key": b64(f"k{n}"), "value": b64(f"v{n}")} for n in range(20)]
        places = produce(client, *sent)

        found = rows(log_dir)
        values = [
            next(row.value for row in found[partition] if row.offset == offset)
            for partition, offset in places
        ]
        assert values == [f"v{n}".encode() for n in range(20)]

    def test_everything_a_record_has_is_kept(self, client: TestClient, log_dir: str) -> None:
        headers = [{"key": "h", "value": b64("x")}, {"key": "null"}]
        record = {"key": b64("k"), "value": None, "timestamp": 77, "headers": headers}
        produce(client, record, path="/topics/t/partitions/2")

        (row,) = rows(log_dir)[2]
        assert row[1:] == (b"k", None, 77, 0, [("h", b"x"), ("null", None)])

    def test_json_is_kept_as_json(self, client: TestClient, log_dir: str) -> None:
        record = {"key": "k", "value": {"a": [1, None]}, "partition": 0}
        body = json.dumps({"records": [record]})
        client.post("/topics/t", content=body, headers=JSON_TYPE)

        assert [row[1:3] for row in rows(log_dir)[0]] == [(b'"k"', b'{"a":[1,null]}')]

    @pytest.mark.parametrize("value", ["NaN", '{"a": -Infinity}', "[1e999, 99999999999999999999]"])
    def test_numbers_that_json_has_not_are_refused(self, client: TestClient, value: str) -> None:
        body = f'{{"records": [{{"value": {value}}}]}}'
        answer = client.post("/topics/t", content=body, headers=JSON_TYPE)

        assert (answer.status_code, answer.json()["error_code"]) == (422, 42206)

    def test_a_large_body_is_parsed_on_a_thread(self, client: TestClient) -> None:
        value = b64("x" * 1000)

        places = produce(client, *({"value": value, "partition": 1} for _ in range(50)))

        assert places == [(1, offset) for offset in range(50)]

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ("{", 422, 42203),
            ("{}", 422, 422),
            ('{"records": []}', 422, 422),
            ('{"records": [{"value": "?"}]}', 422, 42206),
            ('{"records": [{"value": 7}]}', 422, 42206),
            ('{"records": [{"key": "a"}]}', 422, 42206),
            ('{"records": [{"headers": [{"key": "h", "value": "?"}]}]}', 422, 42206),
            ('{"records": [{"val": "YQ=="}]}', 422, 422),
            ('{"records": [{"timestamp": -1}]}', 422, 422),
            ('{"records": [{"partition": 4}]}', 404, 40402),
            ('{"records": [{}], "value_schema": "{}"}', 422, 42201),
            ('{"records": [{"timestamp": 9000000000000000}]}', 400, 40002),
        ],
    )
    def test_what_is_wrong_is_told(
        self, client: TestClient, body: str, status: int, code: int
    ) -> None:
        answer = client.post(
            "/topics/t", content=body, headers={"Content-Type": "application/json"}
        )

        assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text

    def test_of_too_many_records_is_refused(self, client: TestClient, path: str) -> None:
        v2 = b'{"records": [' + b"{}," * RECORDS_MAX + b"{}]}"
        v3 = b"{}" * (RECORDS_MAX + 1)
        kind = {"Content-Type": "application/json"}
        answers = [
            client.post("/topics/t", content=v2, headers=kind),
            client.post(path, content=v3, headers=kind),
        ]

        assert [answer.status_code for answer in answers] == [413, 413]
        assert Rows(key=[None], value=[b"abc"]).size_bytes == 19

    def test_the_partition_of_the_path_counts(self, client: TestClient) -> None:
        path = "/topics/t/partitions/1"
        same = client.post(path, json={"records": [{"value": "", "partition": 1}]})
        other = client.post(path, json={"records": [{"value": "", "partition": 2}]})
        none = client.post("/topics/t/partitions/9", json={"records": [{"value": ""}]})

        codes = [answer.json().get("error_code") for answer in (same, other, none)]
        assert codes == [None, 42206, 40402]

    def test_other_types_and_topics_are_refused(self, client: TestClient) -> None:
        avro = {"Content-Type": "application/vnd.kafka.avro.v2+json"}

        assert client.post("/topics/t", content="{}", headers=avro).json()["error_code"] == 415
        unknown = client.post("/topics/u", json={"records": [{"value": ""}]})
        assert unknown.json() == {"error_code": 40401, "message": "unknown topic 'u'"}

    def test_internal_topics_are_refused(self, client: TestClient, log_dir: str) -> None:
        offsets = {TopicPartition("t", 0): 3}
        AdminClient(log_dir).alter_consumer_group_offsets("g", offsets)
        records = {"records": [{"key": "YQ==", "value": "YQ=="}]}
        answer = client.post("/topics/__consumer_offsets", json=records)
        assert (answer.status_code, "internal" in answer.json()["message"]) == (400, True)
        assert AdminClient(log_dir).list_consumer_group_offsets("g").keys() == offsets.keys()

    def test_an_unknown_topic_is_told_before_the_body_is_looked_at(
        self, client: TestClient
    ) -> None:
        answer = client.post("/topics/u", content="nothing", headers=JSON_TYPE)

        assert (answer.status_code, answer.json()["error_code"]) == (404, 40401)

    def test_a_compacted_topic_wants_keys(self, client: TestClient, log_dir: str) -> None:
        config = {**FOREVER, "cleanup.policy": "compact"}
        AdminClient(log_dir).create_topics([NewTopic("c", 1, config)])

        answer = client.post("/topics/c", json={"records": [{"value": ""}]})

        assert (answer.status_code, answer.json()["error_code"]) == (422, 42206)

    def test_a_record_that_is_too_large_is_refused(self, client: TestClient, log_dir: str) -> None:
        config = {**FOREVER, "max.message.bytes": "100"}
        AdminClient(log_dir).create_topics([NewTopic("small", 1, config)])

        answer = client.post("/topics/small", json={"records": [{"value": b64("x" * 99)}]})

        assert (answer.status_code, answer.json()["error_code"]) == (413, 41301)


class TestIdempotencyKey:
    def send(self, client: TestClient, name: str, *values: str, **record: Any) -> Any:
        records = [{"value": b64(value), **record} for value in values]
        return client.post(
            "/topics/t", json={"records": records}, headers={"Idempotency-Key": name}
        )

    def test_makes_a_retry_answer_the_same(self, client: TestClient, log_dir: str) -> None:
        first = self.send(client, "one", "a", "b")
        again = self.send(client, "one", "a", "b")

        assert first.status_code == 200
        assert again.json() == first.json()
        assert sum(map(len, rows(log_dir).values())) == 2

    def test_takes_records_without_key_to_its_own_partition(self, client: TestClient) -> None:
        keyless = self.send(client, "some-key", "a", "b").json()["offsets"]
        keyed = self.send(client, "other", "c", key=b64("some-key")).json()["offsets"]

        assert {one["partition"] for one in keyless} == {keyed[0]["partition"]}

    @pytest.mark.parametrize("others", [("a", "b"), ("b",)])
    def test_with_other_records_is_refused(
        self, client: TestClient, others: tuple[str, ...]
    ) -> None:
        self.send(client, "k", "a")

        answer = self.send(client, "k", *others)

        assert (answer.status_code, answer.json()["error_code"]) == (422, 42206)

    def test_with_a_partition_that_is_new_is_refused(
        self, client: TestClient, log_dir: str
    ) -> None:
        self.send(client, "k", "a")
        AdminClient(log_dir).create_partitions({"t": 64})
        answer = self.send(client, "k", "a", partition=63)

        assert (answer.status_code, answer.json()["error_code"]) == (422, 42206)

    def test_is_answered_by_the_partition_count_of_its_time(
        self, client: TestClient, log_dir: str
    ) -> None:
        first = self.send(client, "k", "a", "b", "c").json()
        AdminClient(log_dir).create_partitions({"t": 64})

        assert self.send(client, "k", "a", "b", "c").json() == first

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\u00e9"])
    def test_of_other_characters_is_refused(self, client: TestClient, key: str) -> None:
        body = {"records": [{"value": ""}]}

        answer = client.post(
            "/topics/t", json=body, headers={b"Idempotency-Key": key.encode("latin-1")}
        )

        assert answer.status_code == 422


class TestV3:
    def send(self, client: TestClient, path: str, body: str, **headers: str) -> list[Any]:
        answer = client.post(
            path, content=body, headers={"Content-Type": "application/json", **headers}
        )
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def test_the_event_loop_serves_others_while_reports_are_made(
        self, client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those of 100,000 records take a second."""
        made, loops = produce3._report, []

        def report(*given: Any) -> Any:
            loops.append(asyncio._get_running_loop())
            return made(*given)

        monkeypatch.setattr(produce3, "_report", report)
        self.send(client, path, '{"value": {"type": "STRING", "data": "a"}}')

        assert loops == [None]

    def test_answers_in_confluents_shape(self, client: TestClient, path: str) -> None:
        record = {
            "partition_id": 2,
            "headers": [{"name": "h", "value": b64("x")}],
            "key": {"type": "STRING", "data": "kk"},
            "value": {"type": "JSON", "data": {"a": 1}},
            "timestamp": "2013-01-01T00:00:00Z",
        }
        (report,) = self.send(client, path, json.dumps(record))

        assert report == {
            "error_code": 200,
            "cluster_id": path.split("/")[3],
            "topic_name": "t",
            "partition_id": 2,
            "offset": 0,
            "timestamp": "2013-01-01T00:00:00.000Z",
            "key": {"type": "STRING", "size": 2},
            "value": {"type": "JSON", "size": 7},
        }

    def test_reports_on_each_record(self, client: TestClient, path: str, log_dir: str) -> None:
        body = """{"value": {"data": "YQ=="}, "partition_id": 0}
        {"value": {"type": "BINARY", "data": "?"}} {"value": {"type": "STRING", "data": 1}}
        {"value": {"type": "STRING"}, "partition_id": 0}{"timestamp": -1} {"nothing": 1} 5
        {"value": {"type": "JSON", "data": null}, "key": null, "partition_id": 0} }"""
        codes = [report["error_code"] for report in self.send(client, path, body)]

        assert codes == [200, 42206, 42206, 200, 422, 422, 422, 200, 42206]
        assert [row.value for row in rows(log_dir)[0]] == [b"a", None, None]

    def test_times_are_not_negative_and_may_be_beyond_any_calendar(
        self, client: TestClient, path: str, log_dir: str
    ) -> None:
        config = {"message.timestamp.after.max.ms": str(2**63 - 1)}
        AdminClient(log_dir).create_topics([NewTopic("future", 1, config)])
        body = """{"timestamp": "-1"} {"timestamp": "1969-12-31T23:59:59.999Z"}
        {"timestamp": 9000000000000000} {"timestamp": "9999-12-31T23:59:59.999Z"}"""
        reports = self.send(client, path.replace("/t/", "/future/"), body)

        assert [report["error_code"] for report in reports] == [42206, 42206, 200, 200]
        assert [one["timestamp"] for one in reports[2:]] == [None, "9999-12-31T23:59:59.999Z"]

    def test_the_time_is_that_of_the_log_if_it_gives_the_times(
        self, client: TestClient, path: str, log_dir: str
    ) -> None:
        config = {"message.timestamp.type": "LogAppendTime"}
        AdminClient(log_dir).create_topics([NewTopic("appended", 1, config)])
        body = """{"timestamp": 5}"""
        (report,) = self.send(client, path.replace("/t/", "/appended/"), body)
        (row,) = rows(log_dir, "appended")[0]
        assert report["timestamp"] == iso_time(row.timestamp)

    def test_a_header_that_is_no_text_stops_no_other_record(
        self, client: TestClient, path: str
    ) -> None:
        body = '{"headers": [{"name": "\\ud800"}]} {"headers": [{"name": "\\ud83d\\ude00"}]}'
        reports = self.send(client, path, body)

        assert [report["error_code"] for report in reports] == [42206, 200]

    def test_tells_every_record_what_stopped_all(self, client: TestClient, path: str) -> None:
        body = '{"partition_id": 0} {"partition_id": 9} {"nothing": 1}'

        reports = self.send(client, path, body)

        assert [report["error_code"] for report in reports] == [40402, 40402, 422]

    def test_of_a_key_is_answered_again(self, client: TestClient, path: str) -> None:
        first, again = (
            self.send(client, path, '{"value": {"data": "YQ=="}}', **{"Idempotency-Key": "k"})
            for _ in range(2)
        )

        assert first[0]["offset"] == again[0]["offset"] == 0
        assert (first[0]["timestamp"] is None, again[0]["timestamp"]) == (False, None)

    def test_keeps_numbers_of_any_size(self, client: TestClient, path: str, log_dir: str) -> None:
        record = (
            '{"partition_id": 0, "value": {"type": "JSON", "data": {"a": 123456789012345678901}}}'
        )

        assert self.send(client, path, record)[0]["error_code"] == 200
        assert [row.value for row in rows(log_dir)[0]] == [b'{"a":123456789012345678901}']

    @pytest.mark.parametrize(
        "data", ["NaN", "-Infinity", '"\\ud800"', "[" * 900 + "]" * 900, "[" * 9000 + "]" * 9000]
    )
    def test_of_what_is_nearly_json_is_told(self, client: TestClient, path: str, data: str) -> None:
        record = f'{{"value": {{"type": "JSON", "data": {data}}}}}'

        (report,) = self.send(client, path, record)
        assert report["error_code"] in (200, 42206)

    @pytest.mark.parametrize("body", [b"\xff", b"nothing"])
    def test_of_what_is_no_text_or_json(self, client: TestClient, path: str, body: bytes) -> None:
        answer = client.post(path, content=body, headers={"Content-Type": "application/json"})

        assert [answer.status_code, answer.json()["error_code"]] == [200, 42206]

    def test_of_nothing_another_type_or_another_cluster_is_refused(
        self, client: TestClient, path: str
    ) -> None:
        kind = {"Content-Type": "application/json"}
        answers = [
            client.post(path, content=b" ", headers=kind),
            client.post(path, content=b"{}", headers={"Content-Type": "text/plain"}),
            client.post("/v3/clusters/x/topics/t/records", content=b"{}", headers=kind),
        ]

        assert [answer.status_code for answer in answers] == [422, 415, 404]

    def test_to_an_unknown_topic_is_refused(self, client: TestClient, path: str) -> None:
        answer = client.post(path.replace("/t/", "/u/"), json={})

        assert (answer.status_code, answer.json()["error_code"]) == (404, 40401)
