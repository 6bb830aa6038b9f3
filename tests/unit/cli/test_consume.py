"""`sparklog consume`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparklog.cli.records import printing
from sparklog.clock import SystemClock
from sparklog.errors import StorageError, StoragePermissionError
from sparklog.log_reader.slices import read_slices
from sparklog.record.decode import DecodedRecords
from tests.command_line import CommandLine
from tests.logs import image

PLACES = r"%p:%o\n"
SHARED_MAX = "sparklog.shared.segment.max.bytes"
ALL = ["0:0", "0:1", "0:2", "1:0"]


class TestOutput:
    def test_values_a_line_each(self, flights: CommandLine) -> None:
        assert flights.done("consume", "flights").out == b"one\n\n\nfour\n"

    def test_keys_and_other_ends(self, flights: CommandLine) -> None:
        outcome = flights.done("consume", "flights", "-K", r"\t%", "-D", "|")

        assert outcome.out == b"UA\t%one|\t%|\t%|AA\t%four|"

    def test_null_where_asked(self, flights: CommandLine) -> None:
        outcome = flights.done("consume", "flights", "-Z", "-K:")

        assert outcome.out == b"UA:one\nNULL:\n:NULL\nAA:four\n"

    def test_a_format_string(self, flights: CommandLine) -> None:
        outcome = flights.done("consume", "flights", "-f", r"%t %p %o %T %k/%K %s/%S %h\n", "-p1")

        assert outcome.text == "flights 1 0 2500 AA/2 four/4 h=1,n=NULL\n"

    @pytest.mark.parametrize("flag", [["-J"], ["--format", "json"]])
    def test_json_lines(self, flights: CommandLine, flag: list[str]) -> None:
        found = flights.done("consume", "flights", *flag).json

        assert found[3] == {
            "topic": "flights",
            "partition": 1,
            "offset": 0,
            "timestamp": 2500,
            "key": "AA",
            "value": "four",
            "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
        }

    def test_json_out_is_json_in(self, flights: CommandLine) -> None:
        flights.done("topic", "create", "copy", "-p2", "--config", "retention.ms=-1")
        lines = flights.done("consume", "flights", "-J").out
        flights.done("produce", "copy", "--format", "json", stdin=lines)

        copied = flights.done("consume", "copy", "-J").out
        assert copied.replace(b'"copy"', b'"flights"') == lines

    def test_an_empty_topic_prints_nothing(self, sparklog: CommandLine) -> None:
        sparklog.done("topic", "create", "empty")

        assert sparklog.done("consume", "empty", "-J").out == b""


class TestRange:
    @pytest.mark.parametrize(
        ("arguments", "places"),
        [
            ([], ALL),
            (["--from-beginning", "-e"], ALL),
            (["-o", "start"], ALL),
            (["-o", "end"], []),
            (["-o", "1"], ["0:1", "0:2"]),
            (["-o", "9"], []),
            (["-o", "-1"], ["0:2", "1:0"]),
            (["-o", "-9"], ALL),
            (["-o", "+2"], ["0:2"]),
            (["-o", ":1"], ["0:0", "1:0"]),
            (["-o", "1:2"], ["0:1"]),
            (["-o", "2:1"], []),
            (["-o", "@2500"], ["0:2", "1:0"]),
            (["-o", "@1970-01-01T00:00:02:1970-01-01T00:00:02.600"], ["0:1", "1:0"]),
            (["-o", "s@2000", "-o", "e@3000"], ["0:1", "1:0"]),
            (["-o", "@-1d"], []),
            (["-p", "1"], ["1:0"]),
            (["-p", "1", "--partition", "0", "-o", "-1"], ["0:2", "1:0"]),
            (["-c", "2"], ["0:0", "0:1"]),
            (["--max-messages", "4"], ALL),
            (["-c", "0"], []),
        ],
    )
    def test_it_begins_and_ends_there(
        self, flights: CommandLine, arguments: list[str], places: list[str]
    ) -> None:
        assert flights.done("consume", "flights", "-f", PLACES, *arguments).lines == places

    def test_offsets_that_are_gone_are_said(self, flights: CommandLine) -> None:
        flights.done("delete-records", "flights", "-p0", "--before", "2")
        outcome = flights("consume", "flights", "-o", "1", "-f", PLACES)

        assert outcome.lines == ["0:2"]
        assert outcome.err == (
            "sparklog: warning: flights-0: offsets 1 to 1 are gone; starting at 2\n"
        )
        for quiet in (["-q"], ["--quiet"], ["-qJ"], ["-Fqc1"]):
            assert flights("consume", "flights", *quiet, "-o", "1").err == ""
        assert flights("-q", "consume", "flights", "-o", "1").err == ""

    def test_the_start_is_where_the_log_starts(self, flights: CommandLine) -> None:
        flights.done("delete-records", "flights", "-p0", "--before", "2")

        assert flights.done("consume", "flights", "-f", PLACES).lines == ["0:2", "1:0"]


class TestMisuse:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "no topic"),
            (["flights", "-o", "soon"], "'soon' is no offset"),
            (["flights", "-o", "start", "--from-beginning"], "already"),
            (["flights", "-f", "%q"], "%q is no placeholder"),
            (["flights", "-f", "%s", "-K:"], "give it without -K and -D"),
            (["flights", "-J", "-f", "%s"], "are for text"),
            (["flights", "-J", "-Z"], "are for text"),
            (["flights", "-J", "--format", "text"], "--format text"),
            (["flights", "-p", "x"], "partition numbers"),
            (["flights", "--follow", "-o", ":5"], "--follow"),
            (["flights", "--follow", "--version-as-of", "1"], "--follow waits for new records"),
            (["flights", "-c", "-1"], "-c"),
        ],
    )
    def test_it_is_said(self, flights: CommandLine, arguments: list[str], message: str) -> None:
        outcome = flights("consume", *arguments)

        assert (outcome.code, outcome.out) == (2, b"")
        assert message in outcome.err

    def test_a_partition_that_is_not_there_fails(self, flights: CommandLine) -> None:
        outcome = flights("consume", "flights", "-p", "2")

        assert (outcome.code, "no partition 2" in outcome.err) == (1, True)


class TestDamage:
    def test_it_is_said_with_file_position_and_offset(
        self, flights: CommandLine, tmp_path: Path
    ) -> None:
        (log,) = tmp_path.glob("log/__shared/*.log")
        log.write_bytes(log.read_bytes()[:-1] + b"!")
        (slice_,) = image(flights.log_dir, "flights").segments(1)
        outcome = flights("consume", "flights", "-f", PLACES)

        assert outcome.code == 1
        assert outcome.lines == ALL[:3]
        assert f"{log.name}, position {slice_.log_position}, offset 0" in outcome.err

    def test_a_damaged_index_is_a_warning(self, flights: CommandLine, tmp_path: Path) -> None:
        lines = b"".join(b"%05d\n" % number for number in range(3000))
        flights.done("topic", "alter", "flights", "--config", f"{SHARED_MAX}=0")
        flights.done("produce", "flights", "-p1", "-X", "batch.size=1000", stdin=lines)
        for index in tmp_path.glob("log/flights-*/flights-1/*.index"):
            index.write_bytes(b"")
        outcome = flights("consume", "flights", "-p1", "-o", "-1")

        assert (outcome.code, outcome.out) == (0, b"02999\n")
        assert outcome.err.startswith("sparklog: warning: ")
        assert flights("consume", "flights", "-p1", "-o", "-1", "--quiet").err == ""


Commands = list[tuple[object, ...]]


class TestFollow:
    @pytest.fixture
    def naps(self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch) -> list[Commands]:
        """What is done while a follower waits, some commands a nap; then Ctrl-C."""
        todo: list[Commands] = []

        def nap(_clock: SystemClock, _ms: float) -> None:
            if not todo:
                raise KeyboardInterrupt
            for arguments in todo.pop(0):
                flights.done(*arguments, "-q", stdin=b"new\n")

        monkeypatch.setattr(SystemClock, "sleep_ms", nap)
        return todo

    def test_new_records_are_printed_until_interrupted(
        self, flights: CommandLine, naps: list[Commands]
    ) -> None:
        naps += [
            [("produce", "flights", "-p0")],
            [],
            [("topic", "alter", "flights", "-p3"), ("produce", "flights", "-p2")],
        ]
        outcome = flights.done("consume", "flights", "--follow", "-o", "end", "-f", r"%p:%o %s\n")

        assert outcome.lines == ["0:3 new", "2:0 new"]

    def test_only_the_partitions_asked_for(
        self, flights: CommandLine, naps: list[Commands]
    ) -> None:
        naps += [[("produce", "flights", "-p0"), ("produce", "flights", "-p1")]]
        outcome = flights.done("consume", "flights", "-F", "-p1", "-f", PLACES)

        assert outcome.lines == ["1:0", "1:1"]

    def test_it_ends_at_the_limit(self, flights: CommandLine, naps: list[Commands]) -> None:
        naps += [[("produce", "flights", "-p0")]] * 2
        outcome = flights.done("consume", "flights", "-F", "-c5", "-f", PLACES)

        assert outcome.lines == [*ALL, "0:3"]
        assert len(naps) == 1

    def test_records_deleted_meanwhile_are_said(
        self, flights: CommandLine, naps: list[Commands]
    ) -> None:
        naps += [
            [
                ("produce", "flights", "-p1"),
                ("delete-records", "flights", "-p1", "--before", "-1"),
                ("produce", "flights", "-p1"),
            ]
        ]
        outcome = flights("consume", "flights", "-F", "-o", "end", "-f", PLACES)

        assert (outcome.code, outcome.lines) == (0, ["1:2"])
        assert outcome.err == "sparklog: warning: flights-1: offsets 1 to 1 are gone\n"

    def test_they_are_said_once_while_the_storage_is_away(
        self, flights: CommandLine, naps: list[Commands], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: Any, **__: Any) -> Iterator[DecodedRecords]:
            raise StorageError("the disk does not answer")

        new = ("produce", "flights", "-p1")
        naps += [[("delete-records", "flights", "-p1", "--before", "1"), new], [], []]
        monkeypatch.setattr(printing, "read_slices", away)
        outcome = flights("consume", "flights", "-F", "-p1", "-o", "0")

        assert outcome.err.count("are gone") == 1

    @pytest.mark.parametrize(
        ("commands", "message"),
        [
            ([("topic", "delete", "flights")], "unknown topic"),
            ([("topic", "delete", "flights"), ("topic", "create", "flights")], "was deleted"),
        ],
    )
    def test_a_topic_deleted_meanwhile_ends_it(
        self, flights: CommandLine, naps: list[Commands], commands: Commands, message: str
    ) -> None:
        naps += [commands]
        outcome = flights("consume", "flights", "-F", "-o", "end")

        assert (outcome.code, message in outcome.err) == (1, True)

    def test_it_goes_on_after_an_outage_of_the_storage(
        self, flights: CommandLine, naps: list[Commands], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        naps += [[], [], [("produce", "flights", "-p0")]]
        outages = [True, True]

        def read_until_the_outage(*given: Any, **options: Any) -> Iterator[DecodedRecords]:
            for records in read_slices(*given, **options):
                yield records
                if outages and outages.pop():
                    raise StorageError("the disk does not answer")

        monkeypatch.setattr(printing, "ROWS_MAX", 1)
        monkeypatch.setattr(printing, "read_slices", read_until_the_outage)
        outcome = flights("consume", "flights", "-F", "-f", PLACES)

        assert (outcome.code, outcome.lines) == (0, [*ALL, "0:3"])
        assert outcome.err == "sparklog: warning: the disk does not answer; trying again\n"

    def test_it_does_not_wait_where_it_may_not_read(
        self, flights: CommandLine, naps: list[Commands], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: Any, **__: Any) -> Iterator[DecodedRecords]:
            raise StoragePermissionError("it may not be read")

        monkeypatch.setattr(printing, "read_slices", refused)
        outcome = flights("consume", "flights", "-F")

        assert (outcome.code, outcome.err) == (1, "sparklog: error: it may not be read\n")

    def test_it_does_not_wait_for_a_file_that_is_lost(
        self, flights: CommandLine, naps: list[Commands], tmp_path: Path
    ) -> None:
        naps += [[("produce", "flights", "-p0")]]
        for path in tmp_path.glob("log/__shared/*.log"):
            path.unlink()
        outcome = flights("consume", "flights", "-F", "-p1")

        assert (outcome.code, len(naps)) == (1, 1)
