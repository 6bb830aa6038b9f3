"""`sparklog produce`."""

import errno
import json
import os
from pathlib import Path

import pytest

from sparklog.cli.interrupt import Interrupts
from sparklog.cli.records.production import Production
from sparklog.clock import SystemClock
from sparklog.errors import StorageFullError
from sparklog.log_reader import TopicReader
from sparklog.log_writer import TopicWriter, WriteOptions
from sparklog.model import SegmentEntry
from tests.command_line import CommandLine
from tests.logs import catalog


@pytest.fixture
def numbers(sparklog: CommandLine) -> CommandLine:
    """With the topic `numbers` of one partition."""
    sparklog.done("topic", "create", "numbers", "--config", "retention.ms=-1")
    return sparklog


def keys_and_values(sparklog: CommandLine, topic: str = "numbers") -> list[tuple[object, object]]:
    found = sparklog.done("consume", topic, "--format", "json").json
    return [(record["key"], record["value"]) for record in found]


class TestText:
    def test_a_line_is_a_message(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", stdin=b"one\ntwo\n")

        assert keys_and_values(numbers) == [(None, "one"), (None, "two")]

    def test_the_last_line_needs_no_end(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", stdin=b"one\ntwo")

        assert keys_and_values(numbers) == [(None, "one"), (None, "two")]

    def test_empty_lines_are_left_out(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", stdin=b"\none\n\n\n")

        assert keys_and_values(numbers) == [(None, "one")]

    def test_keys_stand_before_the_first_delimiter(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "-K:", stdin=b"a:1\nb\n:2\nc:3:4\nd:\n")

        found = keys_and_values(numbers)
        assert found == [("a", "1"), (None, "b"), ("", "2"), ("c", "3:4"), ("d", "")]

    def test_z_makes_empty_ones_null(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "-K:", "-Z", stdin=b"a:\n:1\nb\n")

        assert keys_and_values(numbers) == [("a", None), (None, "1"), (None, "b")]

    def test_a_fixed_key_is_for_messages_without(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "-K:", "-k", "x", stdin=b"a:1\n2\n")

        assert keys_and_values(numbers) == [("a", "1"), ("x", "2")]

    def test_delimiters_may_be_escaped_and_long(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "-K", r"\t", "-D", r"\x00--", stdin=b"a\t1\0--2\n\0--")

        assert keys_and_values(numbers) == [("a", "1"), (None, "2\n")]

    def test_headers_are_on_every_message(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "-H", "a=1=2", "-H", "b", stdin=b"x\ny\n")

        found = numbers.done("consume", "numbers", "-f", r"%s %h\n")
        assert found.lines == ["x a=1=2,b=NULL", "y a=1=2,b=NULL"]

    def test_records_have_the_time_of_the_write(self, numbers: CommandLine) -> None:
        before = SystemClock().now_ms()
        numbers.done("produce", "numbers", stdin=b"x\n")

        (record,) = numbers.done("consume", "numbers", "-J").json
        assert before <= record["timestamp"] <= SystemClock().now_ms()


class TestInput:
    def test_files_are_read_in_order(self, numbers: CommandLine, tmp_path: Path) -> None:
        for name in ("one", "three"):
            (tmp_path / name).write_text(f"{name}\n")

        files = (tmp_path / "one", "-", tmp_path / "three")
        numbers.done("produce", "numbers", *files, stdin=b"two\n")
        assert [value for _, value in keys_and_values(numbers)] == ["one", "two", "three"]

    def test_topic_as_an_option_leaves_names_to_files(
        self, numbers: CommandLine, tmp_path: Path
    ) -> None:
        (tmp_path / "f").write_text("one\n")
        numbers.done("produce", "--topic", "numbers", tmp_path / "f")

        assert keys_and_values(numbers) == [(None, "one")]

    def test_an_empty_delimiter_takes_files_whole(
        self, numbers: CommandLine, tmp_path: Path
    ) -> None:
        (tmp_path / "f").write_text("one\ntwo\n")
        numbers.done("produce", "numbers", "-D", "", tmp_path / "f")

        assert keys_and_values(numbers) == [(None, "one\ntwo\n")]

    def test_a_missing_file_writes_nothing(self, numbers: CommandLine, tmp_path: Path) -> None:
        outcome = numbers("produce", "numbers", "-", tmp_path / "none", stdin=b"one\n")

        assert (outcome.code, outcome.out) == (1, b"")
        assert outcome.err == (
            f"sparklog: error: cannot read {tmp_path / 'none'}: No such file or directory\n"
        )
        assert keys_and_values(numbers) == []

    def test_a_directory_cannot_be_read(self, numbers: CommandLine, tmp_path: Path) -> None:
        outcome = numbers("produce", "numbers", tmp_path)

        assert (outcome.code, "directory" in outcome.err) == (1, True)

    def test_a_file_that_cannot_be_read_to_its_end_writes_nothing(
        self, numbers: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_interrupts: Interrupts, _stream: object, _size: int) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(Interrupts, "read", fail)
        outcome = numbers("produce", "numbers")

        assert outcome.code == 1
        assert outcome.err == "sparklog: error: cannot read -: Input/output error\n"

    def test_no_input_is_no_commit(self, numbers: CommandLine) -> None:
        assert numbers.done("produce", "numbers").text == ""


class TestJson:
    def test_records_say_it_all(self, numbers: CommandLine) -> None:
        record = {
            "partition": 0,
            "timestamp": 7,
            "key": "a",
            "value": "/w==",
            "value_encoding": "base64",
            "headers": [{"key": "h", "value": None}],
        }
        numbers.done("produce", "numbers", "--format", "json", stdin=json.dumps(record).encode())

        (found,) = numbers.done("consume", "numbers", "--format", "json").json
        assert found == record | {"topic": "numbers", "offset": 0}

    def test_without_a_topic_records_choose(self, numbers: CommandLine) -> None:
        numbers.done("topic", "create", "others")
        lines = b'{"topic":"numbers","value":"1"}\n{"topic":"others","value":"2"}\n'
        (summary,) = numbers.done("produce", "--format", "json", stdin=lines).json

        assert [got["topic"] for got in summary["ranges"]] == ["numbers", "others"]
        assert keys_and_values(numbers, "others") == [(None, "2")]

    def test_a_topic_that_is_given_wins_and_the_order_stays(self, numbers: CommandLine) -> None:
        named = [(b"x", b"1"), (b"y", b"2"), (b"x", b"3")]
        lines = b"".join(b'{"topic":"%s","value":"%s"}\n' % one for one in named)
        numbers.done("produce", "numbers", "--format", "json", stdin=lines)

        assert keys_and_values(numbers) == [(None, "1"), (None, "2"), (None, "3")]

    def test_a_record_without_any_topic_fails(self, numbers: CommandLine) -> None:
        outcome = numbers("produce", "--format", "json", stdin=b'{"value":"1"}')

        assert (outcome.code, "stdin, line 1: no topic: give one" in outcome.err) == (1, True)

    def test_a_bad_record_is_named_and_nothing_is_written(self, numbers: CommandLine) -> None:
        lines = b'{"value":"1"}\n\n{"v":1}'
        outcome = numbers("produce", "numbers", "--format", "json", stdin=lines)

        assert outcome.code == 1
        assert outcome.err.startswith("sparklog: error: stdin, line 3: unknown field 'v'")
        assert keys_and_values(numbers) == []


class TestPartition:
    def test_p_sends_all_there(self, flights: CommandLine) -> None:
        flights.done("produce", "flights", "-p1", stdin=b"x\ny\n")

        assert flights.done("get-offsets", "flights").lines == ["flights:0:3", "flights:1:3"]

    def test_minus_one_leaves_it_to_the_partitioner(self, flights: CommandLine) -> None:
        line = b'{"partition": 7, "value": "x"}'

        assert flights("produce", "flights", "--format", "json", stdin=line).code == 1
        flights.done("produce", "flights", "--format", "json", "-p", "-1", stdin=line)

    def test_one_out_of_range_fails(self, flights: CommandLine) -> None:
        outcome = flights("produce", "flights", "-p2", stdin=b"x\n")

        assert (outcome.code, "partition 2" in outcome.err) == (1, True)


class TestCommit:
    def test_several_when_asked(self, numbers: CommandLine) -> None:
        lines = b"".join(b'{"value":"%d"}\n' % number for number in range(10))
        call = ("produce", "numbers", "--format", "json", "--commit-every", 4)
        (summary,) = numbers.done(*call, stdin=lines).json

        (topic,) = numbers.done("topic", "describe", "numbers", "--format", "json").json
        assert topic["partitions"][0]["segments"] == 3
        assert summary["ranges"] == [
            {"topic": "numbers", "partition": 0, "start": 0, "end": 10, "records": 10}
        ]

    def test_those_before_an_error_are_told(self, numbers: CommandLine, tmp_path: Path) -> None:
        (file := tmp_path / "three.txt").write_text("1\n2\n3\n")
        call = ("produce", "numbers", file, tmp_path / "nowhere", "--commit-every", 2)
        outcome = numbers(*call)

        assert outcome.code == 1
        assert "cannot read" in outcome.err
        assert b"2 records in" in outcome.out

    def test_no_empty_one_at_the_end(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "--commit-every", 2, stdin=b"1\n2\n3\n4\n")

        (topic,) = numbers.done("topic", "describe", "numbers", "--format", "json").json
        assert topic["partitions"][0]["segments"] == 2

    def test_a_transaction_is_committed_once(self, numbers: CommandLine) -> None:
        call = ("produce", "numbers", "--txn-app-id", "app", "--txn-version", 1)
        numbers.done(*call, stdin=b"one\n")
        again = numbers(*call, stdin=b"one\n")

        assert again.code == 0
        assert again.err == (
            "sparklog: warning: numbers: this transaction was committed before, "
            "nothing was written\n"
        )
        assert again.lines[2].split() == ["numbers", "0", "0", "1", "1", "0.0"]
        assert keys_and_values(numbers) == [(None, "one")]

    def test_quiet_does_not_say_so(self, numbers: CommandLine) -> None:
        call = ("produce", "numbers", "-q", "-X", "txnAppId=app", "-X", "txnVersion=1")

        assert numbers.done(*call, stdin=b"one\n") == numbers.done(*call, stdin=b"one\n")

    def test_an_older_version_is_skipped_without_offsets(self, numbers: CommandLine) -> None:
        for version in (1, 2):
            numbers.done("produce", "numbers", "--txn-app-id=a", f"--txn-version={version}",
                         stdin=b"x\n")  # fmt: skip
        outcome = numbers("produce", "numbers", "--txn-app-id=a", "--txn-version=1", stdin=b"x\n")

        assert (outcome.code, outcome.out) == (0, b"")
        assert "its offsets are no longer known" in outcome.err


class TestAbort:
    def test_drops_what_a_failed_end_of_the_write_left_open(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        production = Production(catalog(flights.log_dir), WriteOptions())
        aborted: list[TopicWriter] = []

        def fail(_writer: TopicWriter) -> list[SegmentEntry]:
            raise StorageFullError("no space left")

        def abort(writer: TopicWriter) -> None:
            aborted.append(writer)

        monkeypatch.setattr(TopicWriter, "close", fail)
        monkeypatch.setattr(TopicWriter, "abort", abort)
        production.open("flights")

        with pytest.raises(StorageFullError):
            production.commit()
        production.abort()
        assert len(aborted) == 1


class TestSummary:
    def test_counts_a_single_record(self, numbers: CommandLine) -> None:
        title, *_ = numbers.done("produce", "numbers", stdin=b"one\n").lines

        assert title.startswith("1 record in ")

    def test_columns_in_a_pipe(self, numbers: CommandLine) -> None:
        title, header, row = numbers.done("produce", "numbers", stdin=b"one\ntwo\n").lines

        assert title.startswith("2 records in ")
        assert header.split() == ["topic", "partition", "start", "end", "records", "MB"]
        assert row.split() == ["numbers", "0", "0", "2", "2", "0.0"]

    def test_a_table_on_a_terminal(self, numbers: CommandLine) -> None:
        assert "┃" in numbers("produce", "numbers", stdin=b"one\n", terminal=True).text

    def test_quiet_prints_none_in_either_format(self, numbers: CommandLine) -> None:
        """--format json is also the format of the input: it asks for no summary."""
        for call in ([], ["--format", "json"]):
            outcome = numbers.done("produce", "numbers", "-q", *call, stdin=b'{"value":"1"}')
            assert outcome.text == ""

    def test_one_json_line(self, numbers: CommandLine) -> None:
        (summary,) = numbers.done(
            "produce", "numbers", "--format", "json", stdin=b'{"value":null}\n'
        ).json

        assert summary["bytes"] > 60
        assert summary["took_ms"] >= 0
        assert (summary["records"], summary["replayed"]) == (1, [])


class TestOptions:
    def test_z_compresses(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "-z", "zstd", "-k", "k", stdin=b"x" * 9999 + b"\n")

        (topic,) = numbers.done("topic", "describe", "numbers", "--format", "json").json
        assert topic["partitions"][0]["bytes"] < 1000
        assert keys_and_values(numbers) == [("k", "x" * 9999)]

    def test_x_takes_options_of_produce(self, numbers: CommandLine) -> None:
        numbers.done("produce", "numbers", "-X", "batch.size=1", stdin=b"1\n2\n3\n")
        numbers.done("produce", "numbers", stdin=b"4\n5\n")

        segments = TopicReader.open(catalog(numbers.log_dir), "numbers").image.segments(0)
        assert [(one.record_count, one.batch_count) for one in segments] == [(3, 3), (2, 1)]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "no topic"),
            (["numbers", "-z", "rar"], "compression.type"),
            (["numbers", "-X", "acks=1"], "unknown option acks"),
            (["numbers", "-X", "clustered=true"], "unknown option clustered"),
            (["numbers", "-X", "flush"], "NAME=VALUE"),
            (["numbers", "-K", ""], "-K"),
            (["numbers", "--format", "json", "-K:"], "for text"),
            (["numbers", "--format", "xml"], "--format"),
            (["numbers", "--txn-app-id", "a"], "go together"),
            (["numbers", "--txn-version", "1"], "go together"),
            (["numbers", "--commit-every", "0"], "--commit-every"),
            (["numbers", "-p", "-7"], "--partition"),
            (["numbers", "-p", "99999999999"], "--partition"),
            (["numbers", "--commit-every=1", "--txn-app-id=a", "--txn-version=1"], "several"),
        ],
    )
    def test_misuse_is_said(self, numbers: CommandLine, arguments: list[str], message: str) -> None:
        outcome = numbers("produce", *arguments)

        assert (outcome.code, outcome.out) == (2, b"")
        assert message in outcome.err
        assert outcome.err.count("\n") == 1


class TestRefusal:
    @pytest.mark.parametrize("option", [["-D", ""], ["-k", ""], ["-K", ":"], ["-H", "a=1"], ["-Z"]])
    def test_options_of_text_do_not_go_with_json(
        self, numbers: CommandLine, option: list[str]
    ) -> None:
        outcome = numbers("produce", "numbers", "--format", "json", *option, stdin=b"")

        assert (outcome.code, "are for text" in outcome.err) == (2, True)

    def test_the_name_of_a_header_is_utf8(self, numbers: CommandLine) -> None:
        outcome = numbers("produce", "numbers", "-H", os.fsdecode(b"\xff=1"), stdin=b"x\n")

        assert (outcome.code, "the name is not UTF-8" in outcome.err) == (2, True)

    def test_an_unknown_topic_fails_before_input_is_read(self, numbers: CommandLine) -> None:
        outcome = numbers("produce", "number", stdin=b"x\n")

        assert (outcome.code, "did you mean numbers?" in outcome.err) == (1, True)

    def test_a_record_that_is_too_large_leaves_nothing(self, numbers: CommandLine) -> None:
        numbers.done("topic", "alter", "numbers", "--config", "max.message.bytes=100")
        outcome = numbers("produce", "numbers", stdin=b"x\n" + b"y" * 200 + b"\n")

        assert (outcome.code, "max.message.bytes" in outcome.err) == (1, True)
        assert keys_and_values(numbers) == []

    def test_a_record_is_counted_from_the_beginning(self, numbers: CommandLine) -> None:
        numbers.done("topic", "alter", "numbers", "--config", "max.message.bytes=100")
        lines = b"a\n" * 4 + b"y" * 200 + b"\n"
        outcome = numbers("produce", "numbers", "--commit-every", 3, stdin=lines)

        assert outcome.err.startswith("sparklog: error: row 1 needs a batch of")
        assert outcome.err.endswith("(row 0 is record 4 for topic 'numbers')\n")

    def test_a_compacted_topic_wants_keys(self, numbers: CommandLine) -> None:
        numbers.done("topic", "alter", "numbers", "--config", "cleanup.policy=compact")
        outcome = numbers("produce", "numbers", stdin=b"x\n")

        assert (outcome.code, "needs a key" in outcome.err) == (1, True)
