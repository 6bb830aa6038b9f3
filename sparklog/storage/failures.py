"""From the errors of an operating system to ours, in one place."""

import errno
import os
from types import TracebackType

from sparklog.errors import (
    ExistingFileError,
    MissingFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)

KINDS: dict[int, type[StorageError]] = {
    errno.ENOENT: MissingFileError,
    errno.EEXIST: ExistingFileError,
    errno.ENOSPC: StorageFullError,
    errno.EDQUOT: StorageFullError,
    errno.EACCES: StoragePermissionError,
    errno.EPERM: StoragePermissionError,
    errno.EROFS: StoragePermissionError,
}
"""What each error number means; all others are a plain StorageError."""


def failure(
    kind: type[StorageError], operation: str, path: str, log_dir: str, reason: str
) -> StorageError:
    """An error of `kind` that says what was tried, on which path of which log dir, and why not.

    All but the reason are also attributes of the error: `operation`, `path`, `log_dir`.
    """
    place = f"{path} in {log_dir}" if path else log_dir
    return kind(
        f"cannot {operation} {place}: {reason}", operation=operation, path=path, log_dir=log_dir
    )


class os_errors:  # noqa: N801 - a context manager in lower case, as contextlib.suppress is
    """Raises an OSError of its block as the StorageError that `KINDS` makes of it.

    A class, for it is entered several times a file: contextlib's take four times as long.
    """

    __slots__ = ("_log_dir", "_operation", "_path")

    def __init__(self, operation: str, path: str, log_dir: str) -> None:
        self._operation = operation
        self._path = path
        self._log_dir = log_dir

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            number = error.errno or 0
            kind = KINDS.get(number, StorageError)
            reason = os.strerror(number) if number else str(error)
            raise failure(kind, self._operation, self._path, self._log_dir, reason) from error
