"""Joins writes to a connection: an answer's headers and its body leave in one packet."""

import asyncio
from typing import Any, Final

WAITING_BYTES_MAX: Final = 64 * 1024
"""If more bytes wait, they are sent at once: the transport then slows down long answers."""


class JoinedWrites:
    """A transport that gathers all writes until the next turn of the event loop.

    uvicorn writes the headers of an answer and then its body. That would make two system calls and
    two packets, and wake the client up for the headers alone. Only `write` and `close` differ from
    the transport's own: uvicorn calls no other method to write, and its protocol calls `close`
    before the transport closes itself.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, together with all writes until the next turn of the event loop."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self._flush()

    def close(self) -> None:
        """Write the gathered bytes, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting and not self._transport.is_closing():
            self._transport.writelines(waiting)
