"""The paths inside a log dir: a/b/c. `check_path` refuses every path that could lead out of it."""

from functools import lru_cache

from sparklog.errors import LogDirError, UsageError

_NO_PARTS = frozenset({"", ".", ".."})


@lru_cache(1024)
def check_path(path: str) -> str:
    """Return `path`, which names something inside the log dir.

    Raises LogDirError for an empty or absolute path, for an empty, "." or ".." part, and for a
    backslash or a NUL. Only the name is checked: a symbolic link inside the log dir is followed.
    """
    if not path:
        raise LogDirError("the path is empty; allowed: a path inside the log dir, such as a/b.log")
    if "\\" in path or "\0" in path:
        raise LogDirError(f"the path {path!r} holds a backslash or a NUL; allowed: a/b.log")
    if not _NO_PARTS.isdisjoint(path.split("/")):
        raise LogDirError(
            f"the path {path!r} is absolute or has an empty, '.' or '..' part; "
            "allowed: a path inside the log dir, such as a/b.log"
        )
    return path


def check_directory(directory: str) -> str:
    """Return `directory`, checked as by `check_path`; "" is allowed and means the log dir."""
    return check_path(directory) if directory else directory


def check_range(start: int, length: int | None) -> None:
    """Raise UsageError for a negative position or a negative number of bytes."""
    if start < 0 or (length is not None and length < 0):
        raise UsageError(f"cannot read {length} bytes from {start}: neither may be negative")


def parents(paths: list[str]) -> list[str]:
    """Return each directory above the paths once, deepest first; "", the log dir, comes last."""
    found = {""} if paths else set()
    for path in paths:
        parts = path.split("/")[:-1]
        found.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted(found, key=lambda path: (not path, -path.count("/"), path))
