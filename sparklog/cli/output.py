"""Answers on stdout: a table for people, aligned columns for pipes, JSON lines for programs."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import TextIOWrapper
from itertools import chain, islice
from typing import Any, BinaryIO, Final

from sparklog.errors import UsageError

BLOCK_ROWS: Final = 1_000
"""How many rows of a long answer are in memory."""


def open_stdout() -> None:
    """Make stdout UTF-8 in every locale, as JSON and the names in a log are.

    Raises UsageError if the shell has closed stdout (`>&-`): the answer would be lost.
    """
    if sys.stdout is None:
        raise UsageError("stdout is closed: give the output a place, such as >/dev/null")
    if isinstance(sys.stdout, TextIOWrapper):  # not a StringIO of a program that calls `run`
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def binary_stdout() -> BinaryIO:
    """Return stdout for bytes; text that was printed before comes first."""
    sys.stdout.flush()
    return sys.stdout.buffer


def print_json(row: Mapping[str, Any]) -> None:
    """Print a JSON object on a line of its own."""
    print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under a header: with lines on a terminal, aligned by spaces elsewhere.

    On a terminal numbers are aligned right, with commas between thousands. None is a dash.
    """
    if sys.stdout.isatty():
        _print_rich(title, columns, rows)
        return
    print(title)
    _print_aligned([columns, *rows], [0] * len(columns), gap="  ")


def print_columns(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print an empty line, the names of the columns and the rows, as Kafka's tools do.

    Columns are aligned by spaces, so scripts that take the n-th word of a line keep working. None
    is a dash.
    """
    print()
    _print_aligned([columns, *rows], [0] * len(columns), gap=" ")


def print_long(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under a header as they come, aligned by spaces: there may be a million.

    They are printed in blocks, each at least as wide as the one before.
    """
    print()
    left = chain([columns], rows)
    widths = [0] * len(columns)
    while block := list(islice(left, BLOCK_ROWS)):
        widths = _print_aligned(block, widths, gap="  ")


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, which has no irregular plural: `1 record`, `2,000 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def warn(message: str) -> None:
    """Print a warning on stderr."""
    say(f"sparklog: warning: {message}")


def tell_error(message: str) -> None:
    """Print an error on stderr, as one line."""
    line = " ".join(message.split("\n"))
    say(f"sparklog: error: {line}")


def say(line: str) -> None:
    """Print a line on stderr, if stderr is open."""
    if sys.stderr is not None:  # print(file=None) would print on stdout
        print(line, file=sys.stderr)


def _print_aligned(rows: Iterable[Sequence[Any]], least: Sequence[int], *, gap: str) -> list[int]:
    """Print rows in columns of at least these widths; return the widths."""
    texts = [[_plain(value) for value in row] for row in rows]
    lengths = [[len(text) for text in row] for row in texts]
    widths = [max(column) for column in zip(least, *lengths, strict=True)]
    for row in texts:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        print(gap.join(cells).rstrip())
    return widths


def _print_rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    for index, name in enumerate(columns):
        is_number = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_grouped(value)) for value in row))
    Console().print(table)


def _plain(value: Any) -> str:
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def _grouped(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _plain(value)
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
