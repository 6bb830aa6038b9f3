"""Cuts the bytes of a connection into frames: a size (4 bytes, big endian), then so many bytes.

All connections of an event loop share one read buffer, because nothing else runs between `space`
and `received`. A small frame is copied out of the buffer. A frame that is larger than the buffer
gets memory of its own (`LargeFrames`), and the socket is read into that memory.
"""

import struct
from threading import RLock
from typing import Final
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import InvalidFrameError

BUFFER_BYTES: Final = 16 * 1024
SIZE_BYTES: Final = 4
REUSED_BYTES: Final = 128 * 1024
"""Smaller memory is not reused here: the C library keeps it, and gives larger memory back to the
system."""
FREE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most free memory that is kept for the next large frames."""
_SIZE: Final = struct.Struct(">i")


def new_buffer() -> memoryview:
    """Return a buffer for all connections of an event loop."""
    return memoryview(bytearray(BUFFER_BYTES))


class LargeFrames:
    """Memory for the large frames of all connections; it is reused when no reader has it any more.

    For a large request, fresh memory from the system costs more time than all checks of its
    records. For one event loop; the last reader of a frame may be on any thread.
    """

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []
        self._lock = RLock()

    def take(self, size: int) -> memoryview:
        """Return memory for a frame; its content is undefined."""
        if size < REUSED_BYTES:
            return np.empty(size, np.uint8).data
        with self._lock:
            fits = [block for block in self._free if size <= len(block) <= 2 * size]
            block = min(fits, key=len) if fits else np.empty(size, np.uint8)
            self._free = [one for one in self._free if one is not block]
        frame = block[:size]
        # The frame, and all views of it, keep this array.
        finalize(frame, self._give_back, block).atexit = False
        return frame.data

    def let_go(self) -> None:
        """Free all memory that no frame uses."""
        with self._lock:
            self._free = []

    def _give_back(self, block: NDArray[np.uint8]) -> None:
        with self._lock:
            if sum(map(len, self._free)) + len(block) <= FREE_BYTES_MAX:
                self._free.append(block)


class Frames:
    """The frames of one connection.

    `max_bytes` is the largest frame: sasl.server.max.receive.size until the client is
    authenticated, then socket.request.max.bytes.
    """

    def __init__(self, max_bytes: int, buffer: memoryview, large: LargeFrames) -> None:
        self.max_bytes = max_bytes
        self._buffer = buffer
        self._large_frames = large
        self._rest = b""
        """The bytes of a small frame that is not complete."""
        self._large: memoryview | None = None
        self._large_filled = 0

    @property
    def large_bytes(self) -> int:
        """The size of the large frame that is being received; 0 when there is none."""
        return 0 if self._large is None else len(self._large)

    @property
    def has_part(self) -> bool:
        """Whether a part of a frame was received, and not yet all of it."""
        return bool(self._rest) or self._large is not None

    @property
    def missing_bytes(self) -> int:
        """How many bytes of a large frame are still to come; 0 when there is none."""
        return 0 if self._large is None else len(self._large) - self._large_filled

    def space(self) -> memoryview:
        """Return where the next bytes of the connection go. Never empty."""
        if self._large is not None:
            return self._large[self._large_filled :]
        self._buffer[: len(self._rest)] = self._rest
        return self._buffer[len(self._rest) :]

    def received(self, count: int) -> list[memoryview]:
        """Take `count` bytes that were read into `space`; return the frames that are complete.

        Raises InvalidFrameError for a negative size, and for one above `max_bytes`.
        """
        if self._large is not None:
            self._large_filled += count
            if self.missing_bytes:
                return []
            frame, self._large = self._large.toreadonly(), None
            return [frame]
        return self._cut(len(self._rest) + count)

    def _cut(self, end: int) -> list[memoryview]:
        """Return the frames in the first `end` bytes of the buffer."""
        found: list[memoryview] = []
        start = 0
        while end - start >= SIZE_BYTES:
            size = self._size_at(start)
            body, start = start + SIZE_BYTES, start + SIZE_BYTES + size
            if start <= end:
                found.append(memoryview(bytes(self._buffer[body:start])))
                continue
            if SIZE_BYTES + size > BUFFER_BYTES:
                self._large = self._large_frames.take(size)
                self._large_filled = end - body
                self._large[: end - body] = self._buffer[body:end]
                start = end
            else:
                start = body - SIZE_BYTES
            break
        self._rest = bytes(self._buffer[start:end])
        return found

    def _size_at(self, position: int) -> int:
        size: int = _SIZE.unpack_from(self._buffer, position)[0]
        if not 0 <= size <= self.max_bytes:
            raise InvalidFrameError(
                f"a frame of {size} bytes: a request has 0 to {self.max_bytes} bytes "
                f"(socket.request.max.bytes; before authentication sasl.server.max.receive.size)"
            )
        return size
