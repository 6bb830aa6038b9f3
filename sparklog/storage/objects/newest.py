"""The newest bytes of segments in an object store, in the memory of a service.

    written      a segment that this process has written, as a whole
    read         a range that it has read, if it is small
    under way    a range that a thread is reading: others that want it wait for the same request

Many consumers read a record as soon as it is committed. Without this memory each of them would be a
GET of the same range. A local disk needs none: the system has its pages in memory. The bytes of a
segment never change, and no name is used twice, so nothing here becomes wrong; when memory is full,
the piece that was used least recently goes.
"""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from sparklog.log.names import LOG_SUFFIX
from sparklog.storage.files import NewFile
from sparklog.storage.objects.object_store import ObjectFiles, ObjectNewFile
from sparklog.storage.paths import check_path, check_range
from sparklog.storage.settings import StorageOptions

NEWEST_BYTES: Final = 64 * 1024 * 1024
"""The memory of a service."""
READ_BYTES_MAX: Final = 1024 * 1024
"""A larger range that was read is not kept: a consumer that reads old records would fill the memory
with them."""
PIECE_BYTES: Final = 1024
"""The most memory that a piece takes beside its bytes."""


@dataclass(slots=True, eq=False)
class _Piece:
    """Bytes of a file. `counted` is the memory that it takes; 0 while they are under way."""

    length: int
    data: memoryview | Future[memoryview]
    counted: int = 0


class NewestBytes:
    """The memory itself, for several threads at once."""

    def __init__(self, max_bytes: int = NEWEST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._pieces: OrderedDict[tuple[str, int], _Piece] = OrderedDict()
        """The pieces by path and position; what was used last is at the end."""
        self._counted = 0

    def add(self, path: str, data: memoryview) -> None:
        """Keep a file that was written as a whole."""
        key, piece = (path, 0), _Piece(len(data), data)
        with self._lock:
            self._put(key, piece)
            self._count(key, piece, len(data))

    def read(
        self, path: str, start: int, length: int, fetch: Callable[[str, int, int], memoryview]
    ) -> memoryview:
        """Return the bytes [start, start + length) of a file, as `Files.read`.

        `fetch(path, start, length)` reads what is not in memory. Raises its errors.
        """
        key, answer = (path, start), Future[memoryview]()
        with self._lock:
            found, skipped = self._covering(key, length)
            if found is None:
                mine = _Piece(length, answer)
                self._put(key, mine)
        if found is not None:
            known = found.data
            data = known.result() if isinstance(known, Future) else known
            return _part(data, skipped, length)
        try:
            data = fetch(path, start, length)
        except BaseException as error:
            self._ended(key, mine, None)
            answer.set_exception(error)
            raise
        if len(data) <= READ_BYTES_MAX:
            data = memoryview(bytes(data))  # a store's answer may be a part of a larger buffer
        self._ended(key, mine, data)
        answer.set_result(data)
        return data

    def _covering(self, key: tuple[str, int], length: int) -> tuple[_Piece | None, int]:
        """Return a piece with the whole range, and the range's place in it: from its begin, or 0.

        Only such pieces are looked for: consumers that wait for a record begin at the same place.
        """
        path, start = key
        for place, skipped in ((key, 0), ((path, 0), start)):
            piece = self._pieces.get(place)
            if piece is not None and skipped + length <= piece.length:
                self._pieces.move_to_end(place)
                return piece, skipped
        return None, 0

    def _put(self, key: tuple[str, int], piece: _Piece) -> None:
        old = self._pieces.pop(key, None)
        if old is not None:
            self._counted -= old.counted
        self._pieces[key] = piece

    def _ended(self, key: tuple[str, int], mine: _Piece, data: memoryview | None) -> None:
        """Note that the range of a piece was read; `data` is None if that failed."""
        with self._lock:
            if self._pieces.get(key) is not mine:
                return
            if data is None or len(data) > READ_BYTES_MAX:
                del self._pieces[key]
            else:
                mine.data = data
                self._count(key, mine, len(data))

    def _count(self, key: tuple[str, int], piece: _Piece, size: int) -> None:
        piece.counted = size + PIECE_BYTES
        self._counted += piece.counted
        self._pieces.move_to_end(key)
        while self._counted > self._max_bytes:
            _, oldest = self._pieces.popitem(last=False)
            self._counted -= oldest.counted


def _part(data: memoryview, start: int, length: int) -> memoryview:
    """Return a part as a copy: otherwise an answer that waits would keep all of `data`."""
    if not start and length >= len(data):
        return data
    return memoryview(bytes(data[start : start + length]))


class RememberingFiles(ObjectFiles):
    """Files of an object store that keep the newest bytes of segments in memory.

    A copy in another process begins without memory, and is an ObjectFiles.
    """

    def __init__(self, uri: str, options: StorageOptions, store: Any = None) -> None:
        """See `ObjectFiles`."""
        super().__init__(uri, options, store)
        self._newest = NewestBytes()

    def create(self, path: str, *, durable: bool = False, with_name: bool = False) -> NewFile:
        if path.endswith(LOG_SUFFIX):
            return _RememberedFile(check_path(path), self, self._newest)
        return super().create(path, durable=durable, with_name=with_name)

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        """See `Files.read`: no request if the bytes are in memory."""
        if length is None or not path.endswith(LOG_SUFFIX):
            return super().read(path, start, length)
        check_range(start, length)
        return self._newest.read(check_path(path), start, length, super().read)


class _RememberedFile(ObjectNewFile):
    """A new segment. One that is uploaded in parts is not kept: it is too large."""

    def __init__(self, path: str, files: ObjectFiles, newest: NewestBytes) -> None:
        super().__init__(path, files)
        self._newest = newest

    def _complete(self) -> None:
        super()._complete()
        if self._upload is None:
            self._newest.add(self.path, memoryview(self._first_part).toreadonly())
