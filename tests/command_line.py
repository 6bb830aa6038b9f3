"""The command line as a test calls it: arguments and stdin in; exit code, stdout and stderr out."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from sparklog.cli.app import run


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")[:-1]

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


class Terminal(io.TextIOWrapper):
    """Stdout that says that a person reads it."""

    def isatty(self) -> bool:
        return True


class TerminalErrors(io.StringIO):
    """Stderr that says the same."""

    def isatty(self) -> bool:
        return True


class CommandLine:
    """`sparklog` on one log dir (none when it is empty)."""

    def __init__(self, log_dir: str = "") -> None:
        self.log_dir = log_dir

    def __call__(self, *arguments: object, stdin: bytes = b"", terminal: bool = False) -> Outcome:
        """Run a command line; what it says must be well-formed text on stderr."""
        out, err = io.BytesIO(), TerminalErrors() if terminal else io.StringIO()
        stdout = (Terminal if terminal else io.TextIOWrapper)(out, "utf-8")
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
        given = ["--log-dir", self.log_dir] if self.log_dir else []
        try:
            with redirect_stdout(stdout), redirect_stderr(err):
                code = run([*given, *map(str, arguments)])
                stdout.flush()
        finally:
            sys.stdin = before
        return Outcome(code, out.getvalue(), err.getvalue())

    def done(self, *arguments: object, stdin: bytes = b"") -> Outcome:
        """Run a command line that succeeds without a word on stderr."""
        outcome = self(*arguments, stdin=stdin)
        assert (outcome.code, outcome.err) == (0, "")
        return outcome
