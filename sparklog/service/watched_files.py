"""Files that a service reads again when they change, without a restart."""

from pathlib import Path

_Stamp = tuple[int, int, int, int] | None


class WatchedFiles:
    """Some files; it remembers how they were at the last look."""

    def __init__(self, *paths: Path) -> None:
        """Take the first look. A file may be missing."""
        self._paths = paths
        self._stamps = self._look()

    def have_changed(self) -> bool:
        """Whether a file has changed, come or gone since the last look."""
        before, self._stamps = self._stamps, self._look()
        return before != self._stamps

    def _look(self) -> list[_Stamp]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> _Stamp:
    """Return (mtime in ns, ctime in ns, size, inode), or None without a file.

    They differ after a change; after a change of the mode the ctime does.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
