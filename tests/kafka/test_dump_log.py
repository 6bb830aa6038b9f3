"""`sparklog dump-log` beside Kafka's own tool, on files that a broker wrote a moment ago."""

from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tests.compat.cases import cases, expected
from tests.kafka.conftest import Written
from tests.kafka.make_compat import kafka_dump, kafka_tool

pytestmark = pytest.mark.kafka

SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
KEPT = ("wrong-crc", "record-length", "wrapper-null", "index-offset", "time-order", "snapshot-crc")


def files_of(written: Written) -> list[Path]:
    found = sorted(written.broker.data_dir.glob("*/*"))
    return [path for path in found if path.suffix in SUFFIXES]


class TestBrokersFiles:
    @pytest.mark.parametrize(
        "options",
        [
            ("--print-data-log",),
            ("--deep-iteration", "--skip-record-metadata"),
            ("--verify-index-only",),
            ("--index-sanity-check",),
            ("--max-bytes", "3000"),
        ],
    )
    def test_both_programs_print_the_same(self, options: tuple[str, ...], written: Written) -> None:
        arguments = [*options, "--files", ",".join(map(str, files_of(written)))]
        theirs = kafka_tool(arguments)

        ours = CommandLine()("dump-log", *arguments)
        assert ours.out == theirs.stdout
        assert ours.err == theirs.stderr.decode()


class TestKeptFiles:
    @pytest.mark.parametrize("name", KEPT)
    def test_kafka_still_prints_what_is_kept(self, name: str) -> None:
        assert kafka_dump(cases()[name]) == expected(name)
