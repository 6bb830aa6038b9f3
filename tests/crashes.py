"""A process that ends at a write of its choice: each operation of the storage, and of its files."""

from collections.abc import Callable
from typing import Any

END_WRITES = ("create", "write", "close", "put_new", "sync", "sync_directory")
"""An end makes a shared segment, writes its pieces (a marker, a group's offsets), completes it, and
puts the entry: that waits for the segment's sync. Then it makes the entry durable."""
APPEND_WRITES = ("write", "expose", "put_new", "sync", "sync_directory")
"""A group of appends writes its batches behind those of the group before, and puts the entry."""
WRITES_OF_FILES = ("write", "expose", "sync", "close")
"""The writes of a file that is open."""


class Crash(BaseException):
    """The process ends here."""


class Fails:
    """A store that fails at its n-th write, before or behind it; `done` are those that it did."""

    def __init__(self, files: object, at: int = 0, *, is_behind: bool = False) -> None:
        self._files = files
        self._at = at
        self._is_behind = is_behind
        self.done: list[str] = []

    def fail_at(self, at: int) -> None:
        """Fail at the n-th write from now on."""
        self._at = at
        self.done.clear()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)
        if name in ("put_new", "overwrite", "delete", "sync", "sync_directory"):
            return self.counted(name, found)
        return self._made(found) if name == "create" else found

    def _made(self, create: Callable[..., object]) -> Callable[..., object]:
        counted = self.counted("create", create)
        return lambda *arguments, **options: _File(self, counted(*arguments, **options))

    def counted(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        """A call that counts, and that the process may end at."""

        def failing(*arguments: object, **options: object) -> object:
            self.done.append(name)
            is_here = len(self.done) == self._at
            if is_here and not self._is_behind:
                raise Crash
            found = call(*arguments, **options)
            if is_here:
                raise Crash
            return found

        return failing


class _File:
    """A file of such a store. To abort it is no write: nothing has named it."""

    def __init__(self, files: Fails, file: object) -> None:
        self._files = files
        self._file = file

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        return self._files.counted(name, found) if name in WRITES_OF_FILES else found
