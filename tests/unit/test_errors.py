"""The error tree: as it is drawn, with Kafka's codes, across processes."""

import pickle
import re
from collections.abc import Iterator

import pytest

import sparklog.errors
from sparklog.errors import (
    CorruptRecordError,
    ErrorCode,
    InvalidConfigError,
    SparklogError,
    StorageError,
    StoragePermissionError,
    UnsupportedCodecError,
)


def tree(root: type[SparklogError], depth: int = 0) -> Iterator[tuple[int, str]]:
    """Depth and name of `root` and all below it, as a drawing lists them."""
    yield depth, root.__name__
    for child in root.__subclasses__():
        yield from tree(child, depth + 1)


def drawn() -> list[tuple[int, str]]:
    """The tree of the module's docstring: four columns are one level."""
    lines = re.findall(r"^ {4}([│├└─ ]*)(\w+Error)\b", sparklog.errors.__doc__ or "", re.MULTILINE)
    return [(len(branch) // 4, name) for branch, name in lines]


EVERY_ERROR = [vars(sparklog.errors)[name] for _, name in tree(SparklogError)]


class TestTree:
    def test_is_the_one_that_is_drawn(self) -> None:
        assert drawn() == list(tree(SparklogError))

    @pytest.mark.parametrize("error", EVERY_ERROR)
    def test_every_error_has_a_code_of_kafka(self, error: type[SparklogError]) -> None:
        assert error.code in ErrorCode

    def test_says_which_errors_may_pass(self) -> None:
        assert StorageError.retriable
        assert not StoragePermissionError.retriable


class TestSparklogError:
    @pytest.mark.parametrize("error", EVERY_ERROR)
    def test_survives_a_journey_between_processes(self, error: type[SparklogError]) -> None:
        there = error("what was wrong", file="a.log")
        back = pickle.loads(pickle.dumps(there))

        assert type(back) is error
        assert (back.message, vars(back)) == (there.message, vars(there))

    def test_keeps_details_as_attributes(self) -> None:
        assert vars(InvalidConfigError("no", key="a.key")) == {"key": "a.key"}


class TestCorruptRecordError:
    def test_says_file_position_and_offset(self) -> None:
        error = CorruptRecordError("bad crc", file="a.log", position=61, offset=7)

        assert str(error) == "a.log, position 61, offset 7: bad crc"

    def test_says_what_is_known(self) -> None:
        assert str(CorruptRecordError("bad crc", offset=0)) == "offset 0: bad crc"
        assert str(CorruptRecordError("bad crc")) == "bad crc"

    def test_is_placed_in_a_file_by_whoever_knows_it(self) -> None:
        found = UnsupportedCodecError("codec 6", position=10, offset=2)

        placed = found.in_file("a.log", origin=100, shift=1_000)

        assert type(placed) is UnsupportedCodecError
        assert (placed.file, placed.position, placed.offset) == ("a.log", 110, 1_002)

    def test_invents_no_place(self) -> None:
        placed = CorruptRecordError("empty").in_file("a.log", origin=100, shift=1_000)

        assert (placed.position, placed.offset) == (None, None)
