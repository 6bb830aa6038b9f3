"""Ctrl-C while reading: stop reading, and finish what was read."""

import os
import select
import signal
import threading
from types import FrameType
from typing import Any, Protocol


class Readable(Protocol):
    """A source of input: returns at most `size` bytes, as many as there are; b"" at the end."""

    def read(self, size: int, /) -> bytes | None:
        """Return the next bytes; None if a stream that does not block has none yet."""
        ...


class Interrupts:
    """A block in which SIGINT and SIGTERM end the input, and not the process.

    A second signal ends the process. In another thread than the main one the block does nothing:
    Python handles signals only there.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}
        self._pipe: tuple[int, ...] = ()

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._pipe = os.pipe()
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        for descriptor in self._pipe:
            os.close(descriptor)
        self._pipe = ()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._restore()
        os.write(self._pipe[1], b"!")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def read(self, stream: Readable, size: int) -> bytes:
        """Return the next bytes of an unbuffered stream; b"" at its end, or after a signal."""
        descriptor = _descriptor(stream)
        if descriptor is not None and self._pipe and not self.asked:
            select.select([descriptor, self._pipe[0]], [], [])
        return b"" if self.asked else stream.read(size) or b""


def _descriptor(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError):
        return None
