"""Session: what is known of the client at the other end of a connection."""

import asyncio
from typing import Any

from sparklog.tokens import EVERYBODY, Principal
from sparklog.wire.settings import Listener


class Session:
    """A client: the listener it came to, and whom it has shown to be."""

    __slots__ = ("listener", "principal", "produced")

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.principal: Principal | None = EVERYBODY
        self.produced: asyncio.Future[Any] | None = None
        """A produce that still looks up its topics: those behind it wait for that."""
