"""Sends answers to the socket: their pieces in order, as fast as the client takes them.

    bytes, views                     sent without a copy, several with one call; small ones joined
    ranges of files, 64 KiB or more  os.sendfile: the kernel sends its pages without a copy
    smaller ranges                   read when it is their turn, several for one call

Without TLS bytes go in parts of at most PART_BYTES, and Linux does not join the parts (MSG_EOR).
Joined, they become segments of up to half of the client's largest window. When its window is
smaller than such a segment, and all before it has arrived, Linux sends the next bytes only after
200 ms. This happens on the loopback interface: its packets are larger than the receive buffer of a
producer.

The sender writes to a duplicate of the transport's descriptor, because uvloop has no sendfile.
Under TLS it writes to the transport, which encrypts, so it must read the ranges. It also does that
if the process has no descriptor left. A range that the client has not taken yet waits as a range
and takes no memory.
"""

import asyncio
import errno
import logging
import os
import socket
import struct
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from sparklog.errors import StorageError
from sparklog.log_reader.ranges import FileRange

Piece = bytes | bytearray | memoryview | FileRange
Answer = tuple[bytes, Sequence[Piece]]
"""An answer's header, and the pieces of its body."""

SENDFILE_BYTES: Final = 64 * 1024
"""A smaller range is read: one call for several pieces is faster than one each."""
PART_BYTES: Final = 16 * 1024
"""The most bytes of one call without TLS or sendfile: half of a producer's receive.buffer.bytes."""
WRITE_BYTES: Final = 64 * 1024
"""The most bytes of one call under TLS. At most so many bytes of files are in memory for a client
that takes nothing."""
SMALL_BYTES: Final = 4096
"""A smaller answer in one piece is joined with its header, and sent with one plain call."""
TURN_BYTES: Final = 4 * 1024 * 1024
"""The most bytes that are sent before other connections have their turn."""
HELD_BYTES_MAX: Final = 512 * 1024 * 1024
"""The most bytes of answers that clients have not taken; above it an answer has one batch. It is
for object stores: their bytes are in memory until the client has taken them."""
BUFFERS_MAX: Final = 256
"""The most buffers of one call; the system allows 1,024."""
log: Final = logging.getLogger("sparklog.gateway")


_SIZE: Final = struct.Struct(">i")
_PLAIN: Final = (bytes, bytearray)
_APART: Final = socket.MSG_EOR if sys.platform == "linux" else 0
"""The flag of a part that is not joined with the next one; other systems may refuse it."""


def _ignored() -> None:
    """Do nothing."""


class Sent:
    """Counts of the bytes that a gateway has sent; they only grow."""

    def __init__(self) -> None:
        self.sendfile_calls = 0
        self.sendfile_bytes = 0
        self.written_bytes = 0
        """Bytes that went through this process's memory."""
        self.held_bytes = 0
        """Bytes in memory that clients have not taken yet."""
        self._held_by: Counter[str] = Counter()
        """The same, by the address of the client."""

    def hold(self, address: str, count: int) -> None:
        """Count bytes that a client has not taken yet; a negative `count` frees bytes.

        Other threads call `room_for` meanwhile.
        """
        self.held_bytes += count
        self._held_by[address] += count
        if not self._held_by[address]:
            del self._held_by[address]

    def room_for(self, address: str) -> int:
        """Return how many more bytes the clients of an address may leave in memory.

        They may leave as many as are free for all others: so the slow clients of one address take
        half of the memory, and those of two leave a third of it.
        """
        free = HELD_BYTES_MAX - self.held_bytes
        return max(free - self._held_by[address], 0)


class Sender:
    """Sends the answers of one connection, whose client is at `address`.

    `resumed` is called when a paused one has sent all.
    """

    def __init__(
        self, transport: Any, address: str, sent: Sent, resumed: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._address = address
        self._sent = sent
        self._resumed = resumed
        self._pieces: deque[Piece] = deque()
        self._rest: Piece | None = None
        """The rest of a range that sendfile has begun to send: sendfile also sends the rest."""
        self._is_blocked = False
        self._is_closing = False
        self._held = 0
        self._taken = 0
        self._stuck: tuple[int, float] | None = None
        self._socket = _duplicate(transport)

    @property
    def is_paused(self) -> bool:
        """Whether the client has not read everything that was sent."""
        return bool(self._pieces) or self._is_blocked

    def stuck_since(self, now: float) -> float | None:
        """Return the time since when the client has read nothing; None if it has read everything.

        `now` is the time of this call. A client that has read some bytes since the last call is not
        stuck.
        """
        if not self.is_paused:
            self._stuck = None
            return None
        if self._stuck is None or self._stuck[0] != self._taken:
            self._stuck = self._taken, now
        return self._stuck[1]

    def send(self, *answers: Answer) -> None:
        """Send answers, one after another."""
        for header, pieces in answers:
            size = len(header) + sum(map(len, pieces))
            head = _SIZE.pack(size) + header
            if size < SMALL_BYTES and len(pieces) == 1 and isinstance(pieces[0], _PLAIN):
                self._pieces.append(head + pieces[0])
                continue
            self._pieces.append(head)
            self._pieces += [piece for piece in pieces if len(piece)]
        if not self._is_blocked:
            self._go_on()

    def pause(self) -> None:
        """Note that the transport's buffer is full."""
        self._is_blocked = True

    def resume(self) -> None:
        """Note that the transport's buffer has room again."""
        self._is_blocked = False
        self._go_on()

    def close_when_sent(self) -> None:
        """Close the connection when everything is sent."""
        self._is_closing = True
        if not self.is_paused:
            self._transport.close()

    def close(self) -> None:
        """Drop everything that was not sent; `resumed` is called no more."""
        self._pieces.clear()
        self._count_held()
        self._resumed = _ignored  # the connection's own: the two would keep each other in memory
        if self._socket is not None:
            asyncio.get_running_loop().remove_writer(self._socket.fileno())
            self._socket.close()

    # -------------------------------------------------------------------------------------- sending

    def _go_on(self) -> None:
        """Send until all is sent, the client reads no more, or it is time for other connections."""
        if self._transport.is_closing():
            return
        try:
            if self._socket is None:
                self._write_to_transport()
            else:
                self._write_to_socket(self._socket)
        except (ConnectionError, TimeoutError):  # the client has gone
            self._transport.abort()
            return
        except (OSError, StorageError) as error:
            files = [one.file.path for one in self._pieces if isinstance(one, FileRange)]
            log.warning("an answer was broken off at %s: %s", files[:1], error)
            self._transport.abort()
            return
        if self._pieces or self._held:
            self._count_held()
        if self._is_closing:
            self.close_when_sent()

    def _count_held(self) -> None:
        """Count the bytes in memory that the client has not taken yet; a range has none."""
        held = sum(len(piece) for piece in self._pieces if not isinstance(piece, FileRange))
        self._sent.hold(self._address, held - self._held)
        self._held = held

    def _write_to_transport(self) -> None:
        while self._pieces and not self._is_blocked:
            buffers = self._fronts(WRITE_BYTES)
            self._transport.writelines(buffers)
            self._sent.written_bytes += self._drop(sum(map(len, buffers)))

    def _write_to_socket(self, own: socket.socket) -> None:
        left = TURN_BYTES
        while self._pieces and left > 0:
            try:
                left -= self._send_some(own)
            except BlockingIOError:
                break
        if self._pieces:
            self._is_blocked = True
            asyncio.get_running_loop().add_writer(own.fileno(), self._unblocked, own)

    def _unblocked(self, own: socket.socket) -> None:
        asyncio.get_running_loop().remove_writer(own.fileno())
        self.resume()
        if not self.is_paused:
            self._resumed()

    def _send_some(self, own: socket.socket) -> int:
        """Send as much of the first pieces as the socket takes; return the number of bytes."""
        first = self._pieces[0]
        if len(self._pieces) == 1 and isinstance(first, bytes) and len(first) <= PART_BYTES:
            count = own.send(first, _APART)
            self._sent.written_bytes += count
            return self._drop(count)
        if isinstance(first, FileRange) and (first.size >= SENDFILE_BYTES or first is self._rest):
            count = os.sendfile(own.fileno(), first.file.fileno(), first.start, first.size)
            if not count:
                raise _shorter(first)
            self._sent.sendfile_calls += 1
            self._sent.sendfile_bytes += count
            self._drop(count)
            self._rest = self._pieces[0] if count < first.size else None
            return count
        count = own.sendmsg(self._fronts(PART_BYTES), (), _APART)
        self._sent.written_bytes += count
        return self._drop(count)

    def _fronts(self, room: int) -> list[memoryview]:
        """Return the first `room` bytes as memory, up to a range that sendfile sends."""
        buffers: list[memoryview] = []
        for piece in self._pieces:
            is_large = isinstance(piece, FileRange) and piece.size >= SENDFILE_BYTES
            if room <= 0 or len(buffers) == BUFFERS_MAX or (is_large and buffers):
                break
            buffers.append(_front(piece, room))
            room -= len(buffers[-1])
        return buffers

    def _drop(self, count: int) -> int:
        """Drop the first `count` bytes; return `count`."""
        left = count
        while left:
            first = self._pieces.popleft()
            size = len(first)
            if size > left:
                self._pieces.appendleft(_behind(first, left))
            left -= min(size, left)
        self._taken += count
        return count


def _front(piece: Piece, size: int) -> memoryview:
    """Return the first bytes of a piece. Raises StorageError."""
    if not isinstance(piece, FileRange):
        return memoryview(piece)[:size]
    data = piece.file(piece.start, min(size, piece.size))
    if not data:
        raise _shorter(piece)
    return data


def _shorter(piece: FileRange) -> OSError:
    return OSError(errno.EIO, "the file is shorter than it was", piece.file.path)


def _behind(piece: Piece, size: int) -> Piece:
    """Return a piece without its first bytes."""
    if isinstance(piece, FileRange):
        return FileRange(piece.file, piece.start + size, piece.size - size)
    return memoryview(piece)[size:]


def _duplicate(transport: Any) -> socket.socket | None:
    """Return another descriptor of a plain socket; None under TLS, and if none is left."""
    own = transport.get_extra_info("socket")
    if own is None or transport.get_extra_info("ssl_object") is not None:
        return None
    try:
        return socket.socket(fileno=os.dup(own.fileno()))
    except OSError:
        return None
