"""Answers to the socket: pieces in their order.

A piece is bytes, or a view of them that is sent as it lies.
"""

import struct
from collections.abc import Sequence
from typing import Any

Piece = bytes | bytearray | memoryview


class Sender:
    """What one connection sends."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.is_paused = False

    def send(self, header: bytes, pieces: Sequence[Piece]) -> None:
        """Send one answer."""
        size = len(header) + sum(map(len, pieces))
        self._transport.writelines([struct.pack(">i", size) + header, *pieces])

    def pause(self) -> None:
        """Note that the transport's buffer is full."""
        self.is_paused = True

    def resume(self) -> None:
        """Note that it is not any more."""
        self.is_paused = False

    def close_when_sent(self) -> None:
        """Close the connection behind everything that was sent."""
        self._transport.close()

    def close(self) -> None:
        """Let go of what was not sent."""
