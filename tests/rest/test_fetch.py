"""Fetch: where it begins, how much comes, in which form, and how long it waits."""

import json
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.metadata.catalog import Catalog
from sparklog.record.decode import decode
from sparklog.record.scan import scan_batches
from sparklog.rest.payloads.media_types import ARROW, BINARY, JSON, RAW
from sparklog.storage import open_files
from tests.broker_files import TRANSACTIONAL, batch, marker, write_segment
from tests.logs import append
from tests.rest.conftest import client_for, settings_for

PATH = "/topics/t/partitions/1/records"


def shared_files(log_dir: str) -> list[Path]:
    """The shared segments, oldest first."""
    return sorted(Path(log_dir, "__shared").glob("*.log"))


@pytest.fixture
def filled(log_dir: str) -> str:
    """Partition 1 holds 0 to 9 in two segments, a second apart each."""
    for part in (range(6), range(6, 10)):
        append(log_dir, 1, list(part), timestamps=[1000 * n + 1 for n in part])
    return log_dir


def fetch(client: TestClient, accept: str = BINARY, **query: Any) -> Any:
    answer = client.get(PATH, params={"timeout": 0, **query}, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == accept
    return answer


def offsets(client: TestClient, **query: Any) -> list[int]:
    return [record["offset"] for record in fetch(client, **query).json()]


class TestStart:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({}, range(10)),
            ({"offset": 7}, range(7, 10)),
            ({"offset": 10}, range(0)),
            ({"timestamp": 4001}, range(4, 10)),
            ({"timestamp": "1970-01-01T00:00:08Z"}, range(8, 10)),
            ({"timestamp": 99_999}, range(0)),
            ({"timestamp": -1}, range(0)),
            ({"timestamp": -2}, range(10)),
            ({"timestamp": -3}, range(9, 10)),
        ],
    )
    def test_is_an_offset_or_a_time(
        self, client: TestClient, filled: str, query: dict[str, Any], expected: range
    ) -> None:
        assert offsets(client, **query) == list(expected)

    @pytest.mark.parametrize(
        ("query", "status", "code"),
        [
            ("offset=11", 400, 40002),
            ("offset=1&timestamp=1", 400, 400),
            ("offset=x", 422, 422),
            ("max_bytes=0", 422, 422),
        ],
    )
    def test_elsewhere_is_refused(
        self, client: TestClient, filled: str, query: str, status: int, code: int
    ) -> None:
        answer = client.get(f"{PATH}?timeout=0&{query}")

        assert (answer.status_code, answer.json()["error_code"]) == (status, code)


class TestLimits:
    @pytest.mark.parametrize(
        ("query", "count"),
        [
            ({"max_records": 3}, 3),
            ({"max_records": 7}, 7),
            ({"max_bytes": 1}, 1),
            ({"max_bytes": 6}, 6),
            ({"max_bytes": 7}, 7),
            ({"max_bytes": 100}, 10),
        ],
    )
    def test_cut_records(
        self, client: TestClient, filled: str, query: dict[str, Any], count: int
    ) -> None:
        assert offsets(client, **query) == list(range(count))

    @pytest.mark.parametrize(
        ("max_bytes", "count"), [(102, 1), (103, 2), (305, 2), (306, 3), (307, 4)]
    )
    def test_count_headers(self, client: TestClient, max_bytes: int, count: int) -> None:
        pair = {"key": "h", "value": b64encode(b"x" * 100).decode()}
        records = [
            {"partition": 1, "value": "eQ==", "headers": [pair] * pairs} for pairs in (0, 1, 2, 0)
        ]
        client.post("/topics/t", json={"records": records}, headers={"Content-Type": BINARY})

        assert offsets(client, max_bytes=max_bytes) == list(range(count))

    def test_give_one_record_at_least(self, client: TestClient, log_dir: str) -> None:
        append(log_dir, 1, ["x" * 100, "y"])

        assert offsets(client, max_bytes=5) == [0]


class TestIsolation:
    """A log of which transaction 1 was aborted and transaction 2 committed."""

    @pytest.fixture
    def transactions(self, tmp_path: Path) -> Iterator[TestClient]:
        folder, log_dir = tmp_path / "broker" / "t-1", str(tmp_path / "log")
        folder.mkdir(parents=True)
        parts = [batch(2 * n, producer=n, attributes=TRANSACTIONAL) for n in (1, 2)]
        write_segment(folder, 0, batch(0), *parts, marker(6, 1, 0), marker(7, 2, 1), batch(8))
        admin, found = AdminClient(log_dir), Catalog(open_files(log_dir))
        import_log_dirs(admin, found, [str(folder.parent)], ImportOptions())
        with client_for(settings_for(log_dir)) as client:
            yield client

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({}, [0, 1, 2, 3, 4, 5, 8, 9]),
            ({"isolation_level": "read_uncommitted"}, [0, 1, 2, 3, 4, 5, 8, 9]),
            ({"isolation_level": "read_committed"}, [0, 1, 4, 5, 8, 9]),
            ({"isolation_level": "read_committed", "offset": 3, "max_records": 2}, [4, 5]),
        ],
    )
    def test_hides_what_was_aborted(
        self, transactions: TestClient, query: dict[str, Any], expected: list[int]
    ) -> None:
        data = fetch(transactions, RAW, **query).content
        raw = decode(data, scan_batches(data).batches, start_offset=query.get("offset", 0))

        assert offsets(transactions, **query) == expected
        assert raw.offset.to_pylist()[: len(expected)] == expected

    def test_of_another_level_is_refused(self, client: TestClient) -> None:
        answer = client.get(f"{PATH}?isolation_level=serializable")

        assert (answer.status_code, answer.json()["error_code"]) == (422, 422)


class TestForms:
    def test_binary(self, client: TestClient, filled: str) -> None:
        answer = fetch(client, max_records=1)

        assert answer.json() == [
            {
                "topic": "t",
                "key": None,
                "value": "MA==",
                "partition": 1,
                "offset": 0,
                "timestamp": 1,
            }
        ]
        assert answer.headers["sparklog-log-start-offset"] == "0"
        assert answer.headers["sparklog-log-end-offset"] == "10"

    def test_headers_are_told_where_there_are_some(self, client: TestClient) -> None:
        headers = [{"key": "h", "value": "eA=="}, {"key": "n", "value": None}]
        body = {"records": [{"value": "", "headers": headers}, {"value": ""}]}
        client.post("/topics/t/partitions/1", json=body)

        assert [record.get("headers") for record in fetch(client).json()] == [headers, None]

    def test_json(self, client: TestClient, log_dir: str) -> None:
        append(log_dir, 1, [json.dumps({"a": n}) for n in range(2)])

        assert [one["value"] for one in fetch(client, JSON).json()] == [{"a": 0}, {"a": 1}]

    def test_json_is_that_of_the_record(self, client: TestClient, log_dir: str) -> None:
        append(log_dir, 1, [f"[{2**70}, 1.50]"])

        assert f'"value":[{2**70}, 1.50]' in fetch(client, JSON).text

    @pytest.mark.parametrize(("key", "value", "part"), [("UA", "{}", "key"), ("1", "{no", "value")])
    def test_what_is_no_json_is_a_format_mismatch(
        self, client: TestClient, log_dir: str, key: str, value: str, part: str
    ) -> None:
        append(log_dir, 1, [value], keys=[key])

        answer = client.get(PATH, headers={"Accept": JSON})

        assert (answer.status_code, answer.json()["error_code"]) == (406, 40601)
        assert answer.json()["message"].startswith(f"the {part} at offset 0 is no JSON")

    def test_arrow(self, client: TestClient, filled: str) -> None:
        table = pa.ipc.open_stream(fetch(client, ARROW, offset=4).content).read_all()

        assert table.column("offset").to_pylist() == list(range(4, 10))
        assert table.column("value").to_pylist() == [b"%d" % n for n in range(4, 10)]
        assert set(table.column("partition").to_pylist()) == {1}

    def test_arrow_of_nothing_is_a_stream(self, client: TestClient) -> None:
        assert pa.ipc.open_stream(fetch(client, ARROW).content).read_all().num_rows == 0

    @pytest.mark.parametrize("query", [{}, {"offset": 7}, {"max_bytes": 1}])
    def test_raw_batches_carry_the_offsets_of_the_log(
        self, client: TestClient, filled: str, query: dict[str, int]
    ) -> None:
        data = fetch(client, RAW, **query).content
        found = decode(data, scan_batches(data).batches, start_offset=query.get("offset", 0))

        expected = range(6) if "max_bytes" in query else range(query.get("offset", 0), 10)
        assert found.offset.to_pylist() == list(expected)
        assert found.value.to_pylist() == [b"%d" % n for n in expected]

    def test_raw_batches_of_a_sealed_segment_are_its_bytes(
        self, client: TestClient, log_dir: str
    ) -> None:
        append(log_dir, 1, range(5))

        assert fetch(client, RAW).content == shared_files(log_dir)[0].read_bytes()

    @pytest.mark.parametrize(
        ("accept", "form"),
        [
            ("", BINARY),
            ("*/*", BINARY),
            ("application/json", BINARY),
            ("text/html, application/*;q=0.1", BINARY),
            (f"{BINARY};q=0.2, {JSON};q=0.9", JSON),
            (f"{BINARY};q=x, {JSON};level=1", BINARY),
            (f"{BINARY};q=\xb2, {JSON};q=0.9", BINARY),
            (f"{BINARY};q=0, {JSON};q=0.001", JSON),
            (f"{BINARY};q=0, */*", JSON),
            (f"{BINARY};Q=0.1, {JSON};q=0.2", JSON),
            (f"*/*;q=0, {ARROW};q=0.1", ARROW),
            (ARROW.upper(), ARROW),
        ],
    )
    def test_are_chosen_by_accept(self, client: TestClient, accept: str, form: str) -> None:
        answer = client.get(f"{PATH}?timeout=0", headers=[(b"Accept", accept.encode("latin-1"))])

        assert answer.headers["content-type"] == form

    def test_may_be_given_in_several_lines(self, client: TestClient) -> None:
        lines = [("Accept", "text/html"), ("Accept", JSON)]

        assert client.get(f"{PATH}?timeout=0", headers=lines).headers["content-type"] == JSON

    @pytest.mark.parametrize(
        "accept", ["text/html", f"{BINARY};q=0", "*/*;q=0", "application/*;q=0, */*"]
    )
    def test_others_are_not_to_be_had(self, client: TestClient, accept: str) -> None:
        answer = client.get(PATH, headers={"Accept": accept})

        assert (answer.status_code, answer.json()["error_code"]) == (406, 406)


class TestDamage:
    def test_ends_an_answer_and_is_told_by_the_next(self, client: TestClient, filled: str) -> None:
        second = shared_files(filled)[1]
        data = bytearray(second.read_bytes())
        data[-1] ^= 1
        second.write_bytes(data)

        assert offsets(client) == list(range(6))
        answer = client.get(f"{PATH}?offset=6")
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50002)
        assert filled not in answer.text
        assert ".log" not in answer.text


class TestLongPoll:
    def test_waits_for_records(self, client: TestClient, filled: str) -> None:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(offsets, client, offset=10, timeout=20_000)
            append(filled, 1, ["new"])

            assert waiting.result() == [10]

    def test_is_not_woken_by_another_partition(self, client: TestClient, filled: str) -> None:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(offsets, client, offset=10, timeout=300)
            append(filled, 2, ["new"])

            assert waiting.result() == []

    def test_ends_when_the_client_goes(self, client: TestClient, filled: str) -> None:
        """Goal: nobody waits for a client that is gone. Method: an answer would come in 20 s."""
        messages: list[Any] = [{"type": "http.disconnect"}, {"type": "http.request"}]
        send = AsyncMock()

        async def receive() -> Any:
            return messages.pop()

        scope = {
            "type": "http",
            "method": "GET",
            "path": PATH,
            "query_string": b"offset=10&timeout=20000",
            "headers": [(b"host", b"localhost")],
        }
        assert client.portal is not None
        client.portal.call(client.app, scope, receive, send)

        assert not send.called
        assert 'status="499"' in client.get("/metrics").text

    def test_ends_when_the_topic_goes(self, client: TestClient, filled: str) -> None:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(client.get, f"{PATH}?offset=10&timeout=20000")
            AdminClient(filled).delete_topics(["t"])

            assert waiting.result().status_code == 404
