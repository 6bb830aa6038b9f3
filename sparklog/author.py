"""The author of a commit: this process, and the client that it acts for. The history shows both.

    who         user@host:pid program, such as "sparklog@node-1:4711 gateway"
    principal   the authenticated client of a service, if the entry is its work alone

The program is the command, the service, or the script; SPARKLOG_PROGRAM gives a script, and the
Python workers of a Spark application, another name.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from getpass import getuser
from pathlib import PurePath
from typing import Final

PROGRAM_VARIABLE: Final = "SPARKLOG_PROGRAM"
PART_MAX: Final = 48
"""The most characters of user and host, and of the program: each entry has them."""
_SPARK: Final = "pyspark"
_principal: ContextVar[str | None] = ContextVar("principal", default=None)
_named: str | None = None


def name_program(name: str) -> None:
    """Name the program of this process, for its later commits."""
    global _named  # noqa: PLW0603 - a process is one program at a time
    _named = name


def who() -> str:
    """Return the author of this process's commits."""
    # The id is asked for each time: a forked child has another one.
    return f"{_user_and_host()}:{os.getpid()} {_named or _script()}"


@contextmanager
def acting_for(principal: str | None) -> Iterator[None]:
    """Commit in the block for a client of a service; None: for nobody."""
    token = _principal.set(principal)
    try:
        yield
    finally:
        _principal.reset(token)


def principal() -> str | None:
    """Return the client that this thread acts for; None if there is none."""
    return _principal.get()


@contextmanager
def workers_named(name: str) -> Iterator[None]:
    """Let processes that the block starts have this program's name, unless they have another."""
    if PROGRAM_VARIABLE in os.environ:
        yield
        return
    # A name must not stop a session, whatever the encoding of the environment.
    os.environ[PROGRAM_VARIABLE] = _printable(name).encode("ascii", "replace").decode()
    try:
        yield
    finally:
        os.environ.pop(PROGRAM_VARIABLE, None)  # another thread may have started the same JVM


@cache
def _user_and_host() -> str:
    try:
        user = getuser()
    except (KeyError, OSError):  # a container's user has no name
        user = str(os.getuid())
    return _printable(f"{user}@{socket.gethostname().partition('.')[0]}")


@cache
def _script() -> str:
    path = PurePath(next(iter(sys.argv), ""))
    name = "Spark" if _SPARK in path.parts else path.name
    is_script = name not in ("", "-c", "-m")
    return _printable(os.environ.get(PROGRAM_VARIABLE) or (name if is_script else "python"))


def _printable(text: str) -> str:
    kept = "".join(one if one.isprintable() else "?" for one in text)
    return kept[:PART_MAX]
