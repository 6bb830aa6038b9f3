"""Which paths there are inside a log dir: a/b/c, and nothing that could lead out of it."""

from functools import lru_cache

from sparklog.errors import LogDirError, UsageError

_NO_PARTS = frozenset({"", ".", ".."})


@lru_cache(1024)
def check_path(path: str) -> str:
    """Return `path` when it names something inside the log dir.

    LogDirError for an empty or absolute path, an empty, "." or ".." part, a backslash or a NUL. The
    rule is one of names: a symbolic link that somebody put into the log dir is followed.
    """
    if not path:
        raise LogDirError("the path is empty; allowed: a path inside the log dir, such as a/b.log")
    if "\\" in path or "\0" in path:
        raise LogDirError(f"the path {path!r} holds a backslash or a NUL, which no path here may")
    if not _NO_PARTS.isdisjoint(path.split("/")):
        raise LogDirError(
            f"the path {path!r} is absolute or has an empty, '.' or '..' part; "
            "allowed: a path inside the log dir, such as a/b.log"
        )
    return path


def check_directory(directory: str) -> str:
    """As `check_path`, but "" is allowed and means the log dir itself."""
    return check_path(directory) if directory else directory


def check_range(start: int, length: int | None) -> None:
    """UsageError for a negative start or length: positions count from the file's first byte."""
    if start < 0 or (length is not None and length < 0):
        raise UsageError(f"cannot read {length} bytes from {start}: neither may be negative")


def parents(paths: list[str]) -> list[str]:
    """Each distinct directory above the paths, deepest first; the last is "", the log dir."""
    found = {""} if paths else set()
    for path in paths:
        parts = path.split("/")[:-1]
        found.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted(found, key=lambda path: (-len(path.split("/")) * bool(path), path))
