"""Session: the client at the other end of a connection."""

import asyncio
from typing import Any

from sparklog.tokens import EVERYBODY, Principal
from sparklog.wire.commit_forms import CommitForm
from sparklog.wire.security.sasl import Exchange
from sparklog.wire.settings import Listener


class Session:
    """A client: its listener, and its principal, which is None until it is authenticated."""

    __slots__ = (
        "address",
        "commit_form",
        "exchange",
        "fetch",
        "has_raw_tokens",
        "is_refused",
        "listener",
        "peer",
        "principal",
        "produced",
        "throttle_ms",
    )

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.principal: Principal | None = None if listener.has_sasl else EVERYBODY
        self.peer = "unknown"
        """Its address and port, HOST:PORT."""
        self.address = "unknown"
        self.produced: asyncio.Future[Any] | None = None
        """The last produce request that was not appended at once: it was read, or looked up its
        topics, beside the event loop. Later ones wait for it."""
        self.throttle_ms = 0
        """The throttle time in the next answer: after it no request begins for so long."""
        self.commit_form: CommitForm | None = None
        """The form of its last commit of offsets; None if there is none."""
        self.exchange: Exchange | None = None
        """The authentication in progress."""
        self.fetch: Any = None
        """The last fetch, if it found nothing: the next one may repeat it (`records.fetch`)."""
        self.has_raw_tokens = False
        """Whether SASL messages come without headers: so after a handshake of version 0."""
        self.is_refused = False
        """Whether the authentication failed: the connection closes after the last answer."""
