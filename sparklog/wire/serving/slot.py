"""A request in progress, and its answer when it has one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sparklog.errors import SparklogError
from sparklog.wire.handlers import Call, Handled, Later, Reply
from sparklog.wire.handlers.failed import failed
from sparklog.wire.protocol.headers import RequestHeader


class Slot:
    """One request of a connection; `began` is its time."""

    __slots__ = ("_call", "_has_failed", "_make", "_reply", "began", "is_token", "work")

    def __init__(self, call: Call, began: float, *, is_token: bool) -> None:
        self._call = call
        self.began = began
        self.is_token = is_token
        self.work: asyncio.Future[Any] | None = None
        """The future that the answer comes from; None if the answer is there already."""
        self._reply: Reply = None
        self._has_failed = False
        self._make: Callable[[asyncio.Future[Any]], Handled] | None = None

    @property
    def size(self) -> int:
        """The bytes of the request that it still holds."""
        return len(self._call.frame)

    @property
    def header(self) -> RequestHeader:
        """The header of the request."""
        return self._call.header

    def take(self, reply: Handled) -> None:
        """Take the answer, or the future that it comes from."""
        self.work = self._make = None
        if isinstance(reply, Later):
            self.work, self._make = reply.done, reply.reply
        elif isinstance(reply, Awaitable):
            self.work = asyncio.ensure_future(reply)
        else:
            self._reply = reply

    @property
    def is_due(self) -> bool:
        """Whether the answer is there, or an error, or all that the answer is made of."""
        work = self.work
        return work is None or (work.done() and not work.cancelled())

    def answer(self) -> Handled:
        """Return the answer of a request that is due, or make it; raise as `failed`."""
        if self.work is None:
            return self._reply
        try:
            if self._make is None:
                found: Reply = self.work.result()
                return found
            return self._make(self.work)
        except SparklogError as error:
            if self._has_failed:  # there is no answer that tells the error
                raise
            self._has_failed = True
            return failed(self._call, error)
