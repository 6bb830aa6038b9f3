"""A local disk that fails when it is told to."""

import errno
import os
from typing import Any

import pytest

from sparklog.storage import local_file


def fail(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let a function of `os` fail as the system would."""

    def failing(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, failing)


def break_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each file's first fsync fail, and all later ones succeed, as Linux has it."""
    fsync, failed = os.fsync, set()

    def once(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isfile(path) and path not in failed:
            failed.add(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", once)


def forget_files() -> None:
    """Forget the descriptors that rest, and the files that are written."""
    local_file._IDLE.clear()
    local_file._FINISHED.clear()
