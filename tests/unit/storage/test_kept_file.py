"""Kept files: read at once only what is in memory, and otherwise waited for."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sparklog.errors import StorageError
from sparklog.storage.kept_file import PROBE_BYTES, KeptFile

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def file(tmp_path: Path) -> KeptFile:
    (tmp_path / "file").write_bytes(CONTENT)
    return KeptFile("file", str(tmp_path), os.open(tmp_path / "file", os.O_RDONLY))


def test_what_is_in_memory_is_read_at_once(file: KeptFile) -> None:
    assert file.read_cached(100, 1000) == file(100, 1000) == CONTENT[100:1100]
    assert file.read_cached(len(CONTENT) - 3, 1000) == CONTENT[-3:]
    assert len(file.read_cached(len(CONTENT), 1)) == 0
    assert file.seems_cached(0, len(CONTENT))


def test_a_file_that_has_grown_is_read_to_its_new_end(file: KeptFile, tmp_path: Path) -> None:
    assert not file.reaches(len(CONTENT) + 1)
    with (tmp_path / "file").open("ab") as growing:
        growing.write(b"more")

    assert file.reaches(len(CONTENT) + 4)
    assert not file.reaches(len(CONTENT) + 5)
    assert bytes(file(len(CONTENT), 10)) == bytes(file.read_cached(len(CONTENT), 10)) == b"more"


def test_a_size_that_is_noted_too_late_hides_nothing(file: KeptFile) -> None:
    file.size = 10  # by a thread that looked before the file grew

    assert bytes(file(5, 10)) == bytes(file.read_cached(5, 10)) == CONTENT[5:15]


def test_a_file_that_the_storage_has_lost_is_told(
    file: KeptFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(_: int) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def asked(ask: Callable[[int], object]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fstat", stale)
            ask(len(CONTENT) + 1)

    for ask in (file.reaches, partial(file.read_cached, 5)):
        with pytest.raises(StorageError, match="cannot read file in .*Stale file handle"):
            asked(ask)


@pytest.mark.parametrize("missing", range(0, len(CONTENT), PROBE_BYTES))
def test_what_is_on_disk_is_not(
    file: KeptFile, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    def preadv(descriptor: int, buffers: list[bytearray], start: int, flags: int) -> int:
        if start <= missing < start + len(buffers[0]):
            raise BlockingIOError
        return len(buffers[0])

    monkeypatch.setattr(os, "preadv", preadv)
    assert not file.seems_cached(0, len(CONTENT))
    with pytest.raises(BlockingIOError):
        file.read_cached(0, len(CONTENT))


def test_what_is_partly_on_disk_is_not(file: KeptFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "preadv", lambda *_: 1)
    with pytest.raises(BlockingIOError):
        file.read_cached(0, 2)


def test_a_range_is_brought_into_memory(file: KeptFile) -> None:
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    file.load(0, len(CONTENT))
    assert file.seems_cached(0, len(CONTENT))
