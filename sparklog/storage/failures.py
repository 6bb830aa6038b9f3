"""From the errors of an operating system to ours, in one place."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def os_errors(operation: str, path: str, log_dir: str) -> Iterator[None]:
    """Raise an OSError of the block as the StorageError that `KINDS` makes of it."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        kind = KINDS.get(number, StorageError)
        reason = os.strerror(number) if number else str(error)
        raise failure(kind, operation, path, log_dir, reason) from error
