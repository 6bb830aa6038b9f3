"""The list of an export that was cut off, edited by hand: a line that is none is named."""

from pathlib import Path

import pytest

from sparklog.errors import CorruptionError, LogDirError
from sparklog.interop.exports.export_log import ExportOptions, export_into
from sparklog.interop.staging import LIST, NAME
from tests.logs import new_topic
from tests.unit.interop.conftest import Interop


@pytest.fixture
def listed(interop: Interop, second: Path) -> Path:
    """The list of an export of `t` into a broker's directory."""
    new_topic(interop.log_dir, partitions=1)
    (second / NAME).mkdir()
    return second / LIST


def finish(interop: Interop, listed: Path) -> None:
    export_into(interop.catalog, str(listed.parent), ExportOptions())


@pytest.mark.parametrize(
    "line", [b"# moved", b"t", b"t-0 5", b"../t-0", b"t-0 five 00", b"t-0 5 00 more", b"\xff-0"]
)
def test_a_line_that_no_export_writes_is_named(interop: Interop, listed: Path, line: bytes) -> None:
    listed.write_bytes(b"t-0\n\n" + line + b"\n")
    with pytest.raises(LogDirError, match=r"\.txt, line 3: .* not allowed: a line is <topic>"):
        finish(interop, listed)

    assert (listed.parent / NAME).is_dir()


def test_a_second_line_of_a_partition_is_named(interop: Interop, listed: Path) -> None:
    listed.write_bytes(b"t-0\n\nt-0 5 00\n")
    with pytest.raises(LogDirError, match=r"\.txt, line 3: a second line for t-0"):
        finish(interop, listed)

    assert (listed.parent / NAME).is_dir()


@pytest.mark.parametrize("facts", ["5 0", "5 ffff"])
def test_facts_that_are_none_are_named(interop: Interop, listed: Path, facts: str) -> None:
    listed.write_text(f"t-0 {facts}\n")

    with pytest.raises(CorruptionError, match=f"{LIST}, the line of t-0: "):
        finish(interop, listed)


def test_spaces_and_ends_of_lines_do_not_matter(interop: Interop, listed: Path) -> None:
    listed.write_bytes(b"\r\n t-0 \r\n\n")
    finish(interop, listed)

    assert not listed.exists()
