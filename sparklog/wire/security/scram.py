"""SCRAM, the server's side (RFC 5802, RFC 7677), as Kafka has it: no channel binding, no SASLprep.

    client   n,,n=<user>,r=<nonce>
    server   r=<nonce + more>,s=<salt>,i=<iterations>
    client   c=biws,r=<nonce + more>,p=<proof>
    server   v=<signature>

The server knows no password: a `credential` has keys of the salted password (ScramFormatter). An
unknown user gets a salt, too, and fails only after the proof. So no answer shows which users exist.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from sparklog.errors import SaslAuthenticationError
from sparklog.metadata.state.cluster import ScramCredential

HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""

ITERATIONS: Final = 4096
"""The least number, and the default (ScramMechanism.minIterations)."""
ITERATIONS_MAX: Final = 16384
SALT_BYTES: Final = 20

_FIRST: Final = re.compile(r"n,(?:a=([^,]*))?,n=([^,]+),r=([!-+\--~]+)(?:,.*)?", re.DOTALL)
_FINAL: Final = re.compile(r"(c=([^,]*),r=([^,]+)),p=([A-Za-z0-9+/=]+)")


def credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the keys that a server stores instead of a salted password."""
    kind = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", kind)
    stored_key = hashlib.new(kind, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", kind), iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return a password as clients salt it."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


class _Begin(NamedTuple):
    """The content of the first two messages."""

    user: str
    header: str
    bare: str
    nonce: str
    answer: str
    used: ScramCredential
    is_known: bool


class ScramExchange:
    """One authentication. `nonce` is random and new.

    `secret` is the same at all servers of the users, and clients that are not authenticated do not
    know it.
    """

    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str], ScramCredential | None],
        nonce: str,
        secret: bytes,
    ) -> None:
        self.user: str | None = None
        self._kind = HASHES[mechanism]
        self._credential_of = credential_of
        self._nonce = nonce
        self._secret = secret
        self._begin: _Begin | None = None

    def step(self, message: bytes) -> bytes:
        """Return the answer to a message. `user` is set when the client is authenticated.

        Raises SaslAuthenticationError: the exchange is over.
        """
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise SaslAuthenticationError("a SCRAM message that is no UTF-8") from None
        return self._first(text) if self._begin is None else self._final(self._begin, text)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise SaslAuthenticationError("a first message that is not SCRAM's")
        identity, name, nonce = found.groups()
        if identity not in (None, "", name):
            raise SaslAuthenticationError("another authorization id than the user's name")
        user = name.replace("=2C", ",").replace("=3D", "=")
        known = self._credential_of(user)
        used = known or self._made_up(user)
        bare = text.split(",", 2)[2]
        salt = b64encode(used.salt).decode()
        nonce += self._nonce
        answer = f"r={nonce},s={salt},i={used.iterations}"
        header = text.removesuffix(bare)
        self._begin = _Begin(user, header, bare, nonce, answer, used, known is not None)
        return answer.encode()

    def _made_up(self, user: str) -> ScramCredential:
        """Return a credential for an unknown user: no password fits it.

        As with a user, each mechanism has a salt of its own.
        """
        salt = hmac.digest(self._secret, f"{self._kind} {user}".encode(), "sha256")[:SALT_BYTES]
        return ScramCredential(salt, b"", b"", ITERATIONS)

    def _final(self, begin: _Begin, text: str) -> bytes:
        found = _FINAL.fullmatch(text)
        if found is None:
            raise SaslAuthenticationError("a final message that is not SCRAM's")
        without_proof, binding, nonce, proof = found.groups()
        if nonce != begin.nonce or _decoded(binding) != begin.header.encode():
            raise SaslAuthenticationError("another nonce, or a channel binding")
        signed = f"{begin.bare},{begin.answer},{without_proof}".encode()
        signature = hmac.digest(begin.used.stored_key, signed, self._kind)
        shown = _decoded(proof)
        key = bytes(a ^ b for a, b in zip(shown, signature, strict=False))
        stored_key = hashlib.new(self._kind, key).digest()
        is_right = hmac.compare_digest(stored_key, begin.used.stored_key)
        if not (begin.is_known and is_right and len(shown) == len(signature)):
            raise SaslAuthenticationError("invalid user or password")
        self.user = begin.user
        verifier = hmac.digest(begin.used.server_key, signed, self._kind)
        return b"v=" + b64encode(verifier)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SaslAuthenticationError("a SCRAM message with bad base64") from None
