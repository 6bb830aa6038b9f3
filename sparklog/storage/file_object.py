"""A file of the storage as a file object of Python, for libraries that read these (Arrow)."""

from sparklog.storage.files import Reader


class FileObject:
    """A file that is open for reading; its bytes come from `read`, and it ends at `size`."""

    closed = False

    def __init__(self, read: Reader, size: int) -> None:
        self._read = read
        self._size = size
        self._at = 0

    def read(self, length: int = -1) -> memoryview:
        """Return the next bytes: all that are left, if `length` is negative."""
        data = self._read(self._at, self._size - self._at if length < 0 else length)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset from the start (0), the present position (1) or the end (2)."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._at

    def close(self) -> None:
        """Close nothing: the storage closes the file after its last reader."""
        self.closed = True
