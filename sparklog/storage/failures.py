"""The one place where errors of the operating system become StorageErrors."""

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
"""The class of each error number; any other number gives a plain StorageError."""


def failure(
    kind: type[StorageError], operation: str, path: str, log_dir: str, reason: str
) -> StorageError:
    """Return an error of `kind`. Its message has all the other arguments.

    `operation`, `path` and `log_dir` are also attributes of the error.
    """
    place = f"{path} in {log_dir}" if path else log_dir
    return kind(
        f"cannot {operation} {place}: {reason}", operation=operation, path=path, log_dir=log_dir
    )


class os_errors:  # noqa: N801 - a context manager in lower case, as contextlib.suppress is
    """Turns an OSError of its block into the StorageError that `KINDS` gives for its number.

    It is a class because a file enters it several times, and contextlib's generators are four times
    as slow.
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
