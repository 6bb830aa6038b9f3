"""Lookups: the ends of a log, ListOffsets by time, and where an offset lies."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient, AlterConfigOp, NewTopic
from sparklog.metadata.state.edit import TopicEdit
from sparklog.rest.app import create_app
from sparklog.rest.payloads.bodies import BYTES_MAX
from sparklog.rest.payloads.json_parts import VALUES_MAX
from sparklog.rest.service import FEW
from tests.logs import append, catalog
from tests.rest.conftest import TickingClock, client_for, settings_for

TIMES = [100, 300, 200, 400]


@pytest.fixture
def filled(log_dir: str) -> str:
    """Partition 1 holds two segments of the same four times."""
    for _ in range(2):
        append(log_dir, 1, "abcd", timestamps=TIMES)
    return log_dir


def get(client: TestClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def held_open(log_dir: str) -> list[str]:
    """The files below a directory that this process has open or mapped."""
    opened = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return [path for path in (*opened, *mapped) if log_dir in path and path.endswith(".log")]


class TestPartitionOffsets:
    def test_are_the_ends_of_the_log(self, client: TestClient, filled: str) -> None:
        AdminClient(filled).delete_records({("t", 1): 3})

        found = get(client, "/topics/t/partitions/1/offsets")

        assert found == {"beginning_offset": 3, "end_offset": 8}

    @pytest.mark.parametrize(
        ("timestamp", "offset", "found"),
        [
            ("150", 1, 300),
            ("-1", 8, -1),
            ("-2", 0, -1),
            ("-3", 3, 400),
            ("1970-01-01T00:00:00.350Z", 3, 400),
            ("1970-01-01T01:00:00.350%2B01:00", 3, 400),
            ("1970-01-01T00:00:00.350", 3, 400),
            ("1969-01-01", 0, 100),
            ("401", -1, -1),
            ("150&timestamp=350", 3, 400),
        ],
    )
    def test_by_time(
        self, client: TestClient, filled: str, timestamp: str, offset: int, found: int
    ) -> None:
        path = f"/topics/t/partitions/1/offsets?timestamp={timestamp}"

        first, again = get(client, path), get(client, path)

        assert first == again == {"partition": 1, "offset": offset, "timestamp": found}

    @pytest.mark.parametrize("timestamp", ["-4", "9223372036854775808", "noon", "", "1e3"])
    def test_of_what_is_no_time_are_refused(self, client: TestClient, timestamp: str) -> None:
        answer = client.get(f"/topics/t/partitions/1/offsets?timestamp={timestamp}")

        assert (answer.status_code, answer.json()["error_code"]) == (422, 422)

    @pytest.mark.parametrize(
        ("path", "status", "code"),
        [
            ("/topics/u/partitions/0/offsets", 404, 40401),
            ("/topics/t/partitions/4/offsets", 404, 40402),
            ("/topics/t/partitions/4/offsets?timestamp=5", 404, 40402),
            ("/topics/t/partitions/x/offsets", 422, 422),
            ("/topics/t/partitions/2147483648/offsets", 422, 422),
            ("/topics/t/partitions/-1/offsets", 422, 422),
            ("/topics/..%2F..%2Fetc/partitions/0/offsets", 404, 404),
            ("/nothing", 404, 404),
        ],
    )
    def test_of_what_is_not_there_are_refused(
        self, client: TestClient, path: str, status: int, code: int
    ) -> None:
        answer = client.get(path)

        assert (answer.status_code, answer.json()["error_code"]) == (status, code)
        assert set(answer.json()) == {"error_code", "message"}

    def test_follow_what_others_commit(self, client: TestClient, log_dir: str) -> None:
        ends = []
        for _ in range(3):
            append(log_dir, 0, "ab")
            ends.append(get(client, "/topics/t/partitions/0/offsets")["end_offset"])

        assert ends == [2, 4, 6]

    def test_know_a_topic_that_was_made_again(self, client: TestClient, filled: str) -> None:
        before = get(client, "/topics/t/partitions/1/offsets")["end_offset"]
        admin = AdminClient(filled)
        admin.delete_topics(["t"])
        gone = client.get("/topics/t/partitions/1/offsets").status_code
        admin.create_topics([NewTopic("t", 2)])

        after = get(client, "/topics/t/partitions/1/offsets")["end_offset"]
        assert (before, gone, after) == (8, 404, 0)


class TestTopicOffsets:
    def test_are_a_list_over_the_partitions(self, client: TestClient, filled: str) -> None:
        found = get(client, "/topics/t/offsets?timestamp=150")

        assert found == [
            {"partition": n, "offset": 1 if n == 1 else -1, "timestamp": 300 if n == 1 else -1}
            for n in range(4)
        ]

    def test_need_a_time(self, client: TestClient, filled: str) -> None:
        answer = client.get("/topics/t/offsets?timestamps=1")

        assert (answer.status_code, answer.json()["error_code"]) == (422, 422)

    def test_that_take_too_long_are_refused(self, filled: str) -> None:
        app = create_app(settings_for(filled, lookup_timeout_ms=3), clock=TickingClock())
        with TestClient(app, base_url="http://127.0.0.1") as slow:
            answer = slow.get("/topics/t/offsets?timestamp=0")

        assert (answer.status_code, answer.json()["error_code"]) == (503, 50303)

    def test_of_the_ends(self, client: TestClient, filled: str) -> None:
        found = get(client, "/topics/t/offsets?timestamp=-1")

        assert [one["offset"] for one in found] == [0, 8, 0, 0]


class TestOffsetPlace:
    def test_names_segment_file_and_batch(self, client: TestClient, filled: str) -> None:
        found = get(client, "/topics/t/partitions/1/offsets/6")
        file = Path(filled) / found["log"]["path"]

        assert found["log"]["path"].startswith("__shared/")
        assert found["log"]["bytes"] == found["batch_bytes"] == file.stat().st_size
        assert (found["offset"], found["timestamp"], found["position"]) == (6, 200, 0)
        assert (found["segment_base_offset"], found["segment_next_offset"]) == (4, 8)
        assert (found["batch_base_offset"], found["batch_last_offset"]) == (4, 7)
        assert (found["file_base_offset"], found["sealed"]) == (4, True)
        assert found["index_entry"] is None

    def test_names_a_slice_of_a_shared_file(self, client: TestClient, log_dir: str) -> None:
        records = [{"value": "YQ==", "partition": number} for number in range(2)]
        client.post("/topics/t", json={"records": records})
        first, second = (get(client, f"/topics/t/partitions/{n}/offsets/0") for n in range(2))

        assert first["log"]["path"] == second["log"]["path"]
        assert second["log"]["position"] == first["log"]["bytes"] > 0
        assert second["position"] == 0

    def test_names_the_index_entry(self, client: TestClient, log_dir: str) -> None:
        ops = [AlterConfigOp("sparklog.shared.segment.max.bytes", 0)]
        AdminClient(log_dir).incremental_alter_configs({"t": ops})
        append(log_dir, 0, ["x" * 5000] * 12)

        found = get(client, "/topics/t/partitions/0/offsets/11")

        assert found["index_entry"]["path"].endswith(".index")
        assert found["index_entry"]["position"] <= found["position"]
        assert found["sealed"] is True

    @pytest.mark.parametrize(
        ("offset", "status", "code"), [(8, 400, 40002), (-1, 422, 422), (2**63, 422, 422)]
    )
    def test_outside_the_log_is_refused(
        self, client: TestClient, filled: str, offset: int, status: int, code: int
    ) -> None:
        answer = client.get(f"/topics/t/partitions/1/offsets/{offset}")

        assert (answer.status_code, answer.json()["error_code"]) == (status, code)


class TestLookups:
    def test_answer_each_for_itself(self, client: TestClient, filled: str) -> None:
        wanted = [
            {"partition": 1, "offset": 2},
            {"partition": 1, "timestamp": "1970-01-01T00:00:00.250Z"},
            {"partition": 1, "timestamp": -1},
            {"partition": 1, "offset": 8},
            {"partition": 9, "timestamp": 0},
            {"partition": 1, "timestamp": "soon"},
            {"partition": 1, "timestamp": ""},
        ]
        answer = client.post("/topics/t/offsets:lookup", json={"lookups": wanted})

        found = answer.json()["lookups"]
        assert [one["offset"] for one in found] == [2, 1, 8, None, None, None, None]
        assert [one["error_code"] for one in found] == [None, None, None, 40002, 40402, 422, 422]
        assert found[0]["place"]["batch_last_offset"] == 3

    @pytest.mark.parametrize("inside", [b" " * BYTES_MAX, b"0," * VALUES_MAX])
    def test_of_too_much_are_refused(self, client: TestClient, filled: str, inside: bytes) -> None:
        body = b'{"lookups": [' + inside + b"]}"
        kind = {"Content-Type": "application/json"}

        answer = client.post("/topics/t/offsets:lookup", content=body, headers=kind)
        assert (answer.status_code, answer.json()["error_code"]) == (413, 413)

    @pytest.mark.parametrize("count", [1, FEW, FEW + 1])
    def test_are_as_many_as_are_asked(self, client: TestClient, filled: str, count: int) -> None:
        wanted = {"lookups": [{"partition": 1, "offset": 5}] * count}
        answers = [client.post("/topics/t/offsets:lookup", json=wanted).json() for _ in range(2)]

        found = [[one["timestamp"] for one in answer["lookups"]] for answer in answers]
        assert found == [[300] * count] * 2

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            (b"{", 422, 42203),
            (b"[]", 422, 422),
            (b'{"lookups": []}', 422, 422),
            (b'{"lookups": [{"partition": 0}]}', 422, 422),
            (b'{"lookups": [{"partition": 0, "offset": 1, "timestamp": 2}]}', 422, 422),
            (b'{"lookups": [{"partition": 0, "offset": 1, "oops": 2}]}', 422, 422),
        ],
    )
    def test_that_make_no_sense_are_refused(
        self, client: TestClient, body: bytes, status: int, code: int
    ) -> None:
        answer = client.post(
            "/topics/t/offsets:lookup", content=body, headers={"Content-Type": "application/json"}
        )

        assert (answer.status_code, answer.json()["error_code"]) == (status, code)

    def test_that_take_too_long_are_refused_from_then_on(self, filled: str) -> None:
        wanted = {"lookups": [{"partition": 1, "offset": 5}] * (FEW + 1)}
        app = create_app(settings_for(filled, lookup_timeout_ms=3), clock=TickingClock())
        with TestClient(app, base_url="http://127.0.0.1") as slow:
            answer = slow.post("/topics/t/offsets:lookup", json=wanted)

        found = answer.json()["lookups"]
        assert [one["error_code"] for one in found] == [None] * 3 + [50303] * (FEW - 2)
        assert [one["timestamp"] for one in found[:4]] == [300, 300, 300, None]
        assert found[3]["message"] == "not looked up within 3 ms: ask for fewer at once"

    def test_come_as_json(self, client: TestClient) -> None:
        answer = client.post("/topics/t/offsets:lookup", content=b"{}")

        assert (answer.status_code, answer.json()["error_code"]) == (415, 415)


class TestGaps:
    def test_at_the_end_have_no_place(self, client: TestClient, log_dir: str) -> None:
        append(log_dir, 0, "ab")
        found = catalog(log_dir)
        topic = found.topic("t")
        (entry,) = found.topic_image(topic).segments(0)
        edit = TopicEdit(remove=[entry.key], removed_ms=1)
        found.commit(topic, lambda _: edit, operation="TEST")

        answer = client.get("/topics/t/partitions/0/offsets/1")
        assert (answer.status_code, answer.json()["error_code"]) == (404, 40404)

    def test_lead_to_the_next_record(self, client: TestClient, log_dir: str) -> None:
        append(log_dir, 0, "ab")
        AdminClient(log_dir).delete_records({("t", 0): 1})

        assert get(client, "/topics/t/partitions/0/offsets/1")["offset"] == 1
        assert client.get("/topics/t/partitions/0/offsets/0").status_code == 400


def test_a_log_dir_that_is_none_yet_has_no_topics(tmp_path: Path) -> None:
    with client_for(settings_for(tmp_path / "new")) as client:
        assert client.get("/topics").json() == []
        assert client.get("/topics/t/partitions/0/offsets").json()["error_code"] == 40401


class TestOpenedFiles:
    def test_are_closed_after_a_while(self, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
        path = "/topics/t/partitions/1/offsets?timestamp=150"

        def are_closed() -> bool:
            time.sleep(0.01)
            return held_open(filled) == []

        with client_for(settings_for(filled)) as client:
            get(client, path)
            assert held_open(filled) != []
        monkeypatch.setattr("sparklog.rest.service.LET_GO_S", 0.01)
        with client_for(settings_for(filled)) as client:
            get(client, path)

            assert any(are_closed() for _ in range(6000))
            assert get(client, path)["offset"] == 1
