"""`sparklog get-offsets` and `sparklog delete-records`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.record import kernels
from sparklog.record.layout import BATCH_HEADER_SIZE
from tests.command_line import CommandLine
from tests.damage import Log
from tests.opening import fold_now, make_damaged, note_looks, note_openings

ENTRY = '{"topic":"t","partition":0,"offset":1}'


@pytest.fixture
def three(flights: CommandLine) -> CommandLine:
    """With the topics `flight.log`, `flights` and `other`, of three, two and one partitions."""
    flights.done("topic", "create", "flight.log", "-p3")
    flights.done("topic", "create", "other")
    return flights


class TestTime:
    @pytest.mark.parametrize(
        ("time", "offsets"),
        [
            ([], ["0:3", "1:1"]),
            (["--time", "-1"], ["0:3", "1:1"]),
            (["--time", "latest"], ["0:3", "1:1"]),
            (["--time", "-2"], ["0:0", "1:0"]),
            (["--time", "earliest"], ["0:0", "1:0"]),
            (["--time", "-3"], ["0:2", "1:0"]),
            (["--time", "max-timestamp"], ["0:2", "1:0"]),
            (["--time", "1001"], ["0:1", "1:0"]),
            (["--time", "2501"], ["0:2"]),
            (["--time", "1970-01-01T00:00:02"], ["0:1", "1:0"]),
            (["--time", "-1d"], []),
        ],
    )
    def test_topic_partition_offset(
        self, flights: CommandLine, time: list[str], offsets: list[str]
    ) -> None:
        lines = flights.done("get-offsets", "--topic", "flights", *time).lines

        assert lines == [f"flights:{offset}" for offset in offsets]

    def test_json_has_the_time_that_was_found(self, flights: CommandLine) -> None:
        found = flights.done("get-offsets", "--time", "1500", "-p0", "--format", "json").json

        assert found == [{"topic": "flights", "partition": 0, "offset": 1, "timestamp": 2000}]

    def test_all_topics_are_opened_together(
        self, three: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        openings = note_openings(monkeypatch, three.log_dir)
        three.done("get-offsets", "--topic", "flight.*")

        assert openings == [["flight.log", "flights"]]

    def test_several_names_cost_no_more_looks_at_the_metadata_than_one(
        self, three: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks = note_looks(monkeypatch)
        three.done("get-offsets", "flights")
        count = len(looks)
        three.done("get-offsets", "flights", "flight.log", "other")

        assert len(looks) == 2 * count

    def test_json_of_an_end_has_none(self, flights: CommandLine) -> None:
        (found,) = flights.done("get-offsets", "-p1", "--format", "json").json

        assert (found["offset"], found["timestamp"]) == (1, None)


class TestDamage:
    def test_of_a_topic_hides_no_other(
        self, three: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fold_now(three.log_dir)
        make_damaged(monkeypatch, "flights")
        outcome = three("get-offsets", "-p0")

        assert (outcome.code, outcome.lines) == (1, ["flight.log:0:0", "other:0:0"])
        assert outcome.err == "sparklog: error: flights: flights: a run cannot be read\n"

    def test_of_a_log_names_the_partition(self, flights: CommandLine) -> None:
        [path] = Path(flights.log_dir).rglob("*.log")
        path.write_bytes(Log(path.read_bytes()).flip_byte(BATCH_HEADER_SIZE).data)
        outcome = flights("get-offsets", "--time", "1500")

        assert (outcome.code, outcome.lines) == (1, ["flights:1:0"])
        assert outcome.err.startswith("sparklog: error: flights-0: ")
        assert path.name in outcome.err

    def test_leaves_no_partition_out_for_spark(
        self, three: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fold_now(three.log_dir)
        make_damaged(monkeypatch, "flights")
        outcome = three("get-offsets", "--spark")

        assert (outcome.code, outcome.text) == (1, "")


class TestSpark:
    def test_one_object_as_starting_offsets_takes_it(self, three: CommandLine) -> None:
        (found,) = three.done("get-offsets", "flights", "other", "--spark").json

        assert found == {"flights": {"0": 3, "1": 1}, "other": {"0": 0}}

    def test_a_partition_without_a_record_from_then_on_has_its_end(
        self, flights: CommandLine
    ) -> None:
        (found,) = flights.done("get-offsets", "--time", "2501", "--spark").json

        assert found == {"flights": {"0": 2, "1": 1}}


class TestChoice:
    @pytest.mark.parametrize(
        ("arguments", "places"),
        [
            ([], "flight.log:0 flight.log:1 flight.log:2 flights:0 flights:1 other:0"),
            (["other"], "other:0"),
            (["other", "flights"], "flights:0 flights:1 other:0"),
            (["flight.log", "-p", "0,2"], "flight.log:0 flight.log:2"),
            (["--topic", "flight.*", "--partitions", "1"], "flight.log:1 flights:1"),
            (["--topic", "other,flights"], "flights:0 flights:1 other:0"),
            (["other", "--topic", "flights"], "flights:0 flights:1 other:0"),
            (["--topic-partitions", "flights:1,other"], "flights:1 other:0"),
            (["--topic-partitions", ":1-"], "flight.log:1 flight.log:2 flights:1"),
            (["--topic-partitions", "flight.log:-2"], "flight.log:0 flight.log:1"),
            (["--topic-partitions", "flight.log:1-2,flights:0-"],
             "flight.log:1 flights:0 flights:1"),
        ],
    )  # fmt: skip
    def test_topics_and_partitions(
        self, three: CommandLine, arguments: list[str], places: str
    ) -> None:
        lines = three.done("get-offsets", *arguments).lines

        assert [line.rpartition(":")[0] for line in lines] == places.split()

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["flihts"], 1, "made on first use); did you mean flights?"),
            (["--topic", "none"], 1, "no topic or partition matches"),
            (["flights", "-p9"], 1, "no topic or partition matches"),
            (["-p", "-1"], 2, "partition numbers"),
            (["--time", "soon"], 2, "'soon' is no time; allowed: latest, earliest, max-timestamp,"),
            (["--topic", "("], 2, "--topic '('"),
            (["--topic-partitions", "a:b"], 2, "--topic-partitions 'a:b'"),
            (["--topic-partitions", "a", "-p1"], 2, "goes without"),
        ],
    )
    def test_what_is_wrong_is_said(
        self, flights: CommandLine, arguments: list[str], code: int, message: str
    ) -> None:
        outcome = flights("get-offsets", *arguments)

        assert (outcome.code, outcome.out) == (code, b"")
        assert message in outcome.err


class TestKernels:
    @pytest.mark.parametrize(
        ("partitions", "time", "plain"),
        [(2, "0", True), (16, "-3", True), (17, "0", False), (2, "-1", False), (2, "-2", False)],
    )
    def test_plain_ones_find_a_time_in_few_partitions(
        self,
        sparklog: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
        partitions: int,
        time: str,
        plain: bool,
    ) -> None:
        preferred: list[bool] = []
        monkeypatch.setattr(kernels, "run_plain", lambda: preferred.append(True))
        sparklog.done("topic", "create", "t", "-p", partitions)
        sparklog.done("get-offsets", "--time", time)

        assert preferred == [True] * plain

    def test_they_need_no_numba(self, flights: CommandLine) -> None:
        code = (
            "import sys\n"
            "from sparklog.cli.app import run\n"
            f"run(['--log-dir', {flights.log_dir!r}, 'get-offsets', '--time', '0'])\n"
            "print('sparklog.record.kernels.jit' in sys.modules, 'numba' in sys.modules)"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"NUMBA_DISABLE_JIT": "0"},
        )

        assert ended.stdout.splitlines()[-1] == "True False"


class TestDeleteRecords:
    def test_it_says_what_kafka_says(self, flights: CommandLine) -> None:
        outcome = flights.done("delete-records", "flights", "--partition", "0,1", "--before", "1")

        assert outcome.lines == [
            "partition: flights-0\tlow_watermark: 1",
            "partition: flights-1\tlow_watermark: 1",
        ]
        starts = flights.done("get-offsets", "--time", "earliest").lines
        assert starts == ["flights:0:1", "flights:1:1"]

    def test_minus_one_is_the_end(self, flights: CommandLine) -> None:
        (found,) = flights.done(
            "delete-records", "--topic", "flights", "-p0", "--offset", "-1", "--format", "json"
        ).json

        assert found == {"topic": "flights", "partition": 0, "low_watermark": 3}

    def test_kafkas_file_is_taken(self, flights: CommandLine, tmp_path: Path) -> None:
        path = tmp_path / "offsets.json"
        entry = {"topic": "flights", "partition": 0, "offset": 2}
        path.write_text(json.dumps({"partitions": [entry], "version": 1}))

        outcome = flights.done("delete-records", "--offset-json-file", path)
        assert outcome.lines == ["partition: flights-0\tlow_watermark: 2"]

    @pytest.mark.parametrize("given", [["flights"], ["-p0"], ["--before", "1"]])
    def test_a_file_goes_without_other_names_of_records(
        self, flights: CommandLine, given: list[str]
    ) -> None:
        outcome = flights("delete-records", "--offset-json-file", "offsets.json", *given)

        assert outcome.code == 2
        assert "--offset-json-file goes without a topic, --partition and --before" in outcome.err

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("{", "JSONDecodeError"),
            ('{"partitions":[{"topic":"flights"}]}', "KeyError"),
            ('{"version":2,"partitions":[]}', "version 2"),
            ("[]", "no JSON object"),
            (f'{{"partitions":[{ENTRY[:-1]}.5}}]}}', "is no int"),
            (f'{{"partitions":[{ENTRY},{ENTRY}]}}', "t-0 twice"),
        ],
    )
    def test_a_file_that_is_none_fails(
        self, flights: CommandLine, tmp_path: Path, content: str, message: str
    ) -> None:
        path = tmp_path / "offsets.json"
        path.write_text(content)
        outcome = flights("delete-records", "--offset-json-file", path)

        assert outcome.code == 1
        assert message in outcome.err

    def test_a_missing_file_fails(self, flights: CommandLine, tmp_path: Path) -> None:
        assert flights("delete-records", "--offset-json-file", tmp_path / "none").code == 1

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["flights", "-p0"], 2),
            (["flights", "--before", "1"], 2),
            (["-p0", "--before", "1"], 2),
            (["flights", "-p9", "--before", "1"], 1),
            (["flights", "-p0", "--before", "4"], 1),
            (["none", "-p0", "--before", "1"], 1),
        ],
    )
    def test_what_is_wrong_deletes_nothing(
        self, flights: CommandLine, arguments: list[str], code: int
    ) -> None:
        assert flights("delete-records", *arguments).code == code
        assert flights.done("get-offsets", "--time", "-2").lines == ["flights:0:0", "flights:1:0"]
