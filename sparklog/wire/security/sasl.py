"""SASL: mechanisms, and the exchange of one connection (KIP-43, KIP-152).

    PLAIN                   the user is a token's name, the password the token (`sparklog.tokens`)
    SCRAM-SHA-256, -512     users of the log dir (`sparklog users`), with the token file's grants

An exchange is one authentication by a mechanism. The handlers decide when a client may begin one.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from sparklog.errors import SaslAuthenticationError
from sparklog.metadata.state.cluster import SCRAM_MECHANISMS
from sparklog.metadata.state.image import Image
from sparklog.tokens import Principal, Tokens
from sparklog.wire.security.scram import ScramExchange

PLAIN: Final = "PLAIN"
MECHANISMS: Final[Sequence[str]] = (PLAIN, *SCRAM_MECHANISMS)
_PLAIN_PARTS: Final = 3
Newest = Callable[[], Awaitable[Image]]
"""Reads the newest image."""


class Exchange(Protocol):
    """An authentication in progress."""

    async def step(self, message: bytes, newest: Newest) -> tuple[bytes, Principal | None]:
        """Return the answer to a message, and the principal after the last message, else None.

        Raises SaslAuthenticationError: the exchange has failed and is over. Raises as `newest` if
        the exchange reads the image.
        """
        ...


class _Plain:
    """PLAIN (RFC 4616): one message, `authorization id NUL user NUL password`.

    It reads no image: clients with a token are authenticated while the storage is away, too.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def step(self, message: bytes, newest: Newest) -> tuple[bytes, Principal | None]:  # noqa: ARG002 - of Exchange
        """Return an empty answer, and the token as the principal."""
        parts = message.split(b"\0")
        if len(parts) != _PLAIN_PARTS:
            raise SaslAuthenticationError("a message that is not PLAIN's")
        identity, user, secret = (part.decode("utf-8", "replace") for part in parts)
        token = self._tokens.known(secret)
        if token is None or token.name != user or identity not in ("", user):
            raise SaslAuthenticationError("invalid user or password")
        return b"", token


class _Scram:
    """SCRAM: two messages.

    The salts of unknown users are made from the cluster id: every instance sends the same ones, as
    for a user, and no client knows the id before it is authenticated.
    """

    def __init__(self, tokens: Tokens, mechanism: str, cluster_id: str) -> None:
        self._tokens = tokens
        self._mechanism = mechanism
        self._secret = cluster_id.encode()
        self._exchange: ScramExchange | None = None

    async def step(self, message: bytes, newest: Newest) -> tuple[bytes, Principal | None]:
        """Return the answer to a message, and the user after the second message, else None."""
        if self._exchange is None:
            image, mechanism = await newest(), self._mechanism
            self._exchange = ScramExchange(
                mechanism,
                lambda user: image.users.get((user, mechanism)),
                secrets.token_urlsafe(18),
                self._secret,
            )
        answer = self._exchange.step(message)
        user = self._exchange.user
        return answer, None if user is None else self._tokens.user(user)


def exchange(mechanism: str, tokens: Tokens, cluster_id: str) -> Exchange:
    """Return a new exchange; `mechanism` is one of MECHANISMS."""
    return _Plain(tokens) if mechanism == PLAIN else _Scram(tokens, mechanism, cluster_id)
