"""Who may do what: bearer tokens, hashed in a file, with scopes for prefixes of topic names.

    [[tokens]]                                        (TOML)
    name = "etl"
    sha256 = "<hex of the token's SHA-256>"           python -m api.security makes a token
    grants = [{ prefix = "flights", scopes = ["read", "write"] }]

A token is 32 random bytes, so a plain hash is enough: there is nothing to guess. All hashes are
compared, each in constant time. A prefix of "" is every topic; what belongs to no topic (clusters,
metrics) needs any token.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import sys
import tomllib
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.errors import FORBIDDEN, UNAUTHENTICATED, ApiError
from api.settings import Settings


class Scope(StrEnum):
    """What a token may be allowed to do with topics."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class SettingsError(Exception):
    """The service refuses to start."""


class Grant(BaseModel):
    """Scopes on the topics whose names begin with `prefix`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: str
    scopes: frozenset[Scope]


class Token(BaseModel):
    """One line of the file: who, how to know them, what they may do."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    grants: tuple[Grant, ...]

    def allows(self, scope: Scope, topic: str) -> bool:
        """Whether a grant covers it."""
        return any(
            scope in grant.scopes and topic.startswith(grant.prefix) for grant in self.grants
        )


class TokenFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tokens: tuple[Token, ...]


EVERYBODY: Final = Token(
    name="everybody",
    sha256="0" * 64,
    grants=(Grant(prefix="", scopes=frozenset(Scope)),),
)
"""Whoever asks, where there are no tokens."""


class Tokens:
    """The tokens of the service; None for none at all."""

    def __init__(self, tokens: tuple[Token, ...] | None) -> None:
        self._tokens = tokens

    @classmethod
    def read(cls, path: Path | None) -> "Tokens":
        """Read the file. Raises SettingsError for one that cannot be read or understood."""
        if path is None:
            return cls(None)
        try:
            found = TokenFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
            raise SettingsError(f"SPARKLOG_TOKENS_FILE={path}: {error}") from error
        return cls(found.tokens)

    def known(self, authorization: str | None, *, is_page: bool = False) -> Token:
        """Return the token of an Authorization header. Raises ApiError (401).

        A page also takes Basic, with the token as the password: browsers ask for that.
        """
        if self._tokens is None:
            return EVERYBODY
        shown = hashlib.sha256(_secret(authorization or "", is_page).encode()).hexdigest()
        found = [token for token in self._tokens if hmac.compare_digest(token.sha256, shown)]
        if not found:
            scheme = "Basic" if is_page else "Bearer"
            header = {"WWW-Authenticate": f'{scheme} realm="sparklog"'}
            raise ApiError(UNAUTHENTICATED, "a valid token is needed", header)
        return found[0]


def check(token: Token, scope: Scope, topic: str) -> None:
    """Raise ApiError (403) unless the token allows it; whether the topic exists is not told."""
    if not token.allows(scope, topic):
        raise ApiError(FORBIDDEN, f"this token has no {scope} access to topic {topic!r}")


def check_listening(settings: Settings) -> None:
    """Raise SettingsError when the service would listen beyond loopback without tokens."""
    if settings.tokens_file is None and not is_loopback(settings.host):
        raise SettingsError(
            f"SPARKLOG_HOST={settings.host} listens beyond this machine: that needs "
            f"SPARKLOG_TOKENS_FILE"
        )


@lru_cache(maxsize=100)
def is_loopback(host: str) -> bool:
    """Whether an address, or `localhost`, is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _secret(authorization: str, is_page: bool) -> str:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if is_page and scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def new_token() -> tuple[str, str]:
    """Return a new token and its SHA-256 in hex."""
    token = secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


if __name__ == "__main__":
    sys.stdout.write("token  {}\nsha256 {}\n".format(*new_token()))
