"""Who may do what: bearer tokens, hashed in a file, with scopes for prefixes of topic names.

    [[tokens]]                                        (TOML)
    name = "etl"
    sha256 = "<hex of the token's SHA-256>"           python -m sparklog.tokens makes a token
    grants = [{ prefix = "flights", scopes = ["read", "write"] }]

A token is 32 random bytes, so a plain hash is enough: there is nothing to guess. All hashes are
compared, each in constant time. A prefix of "" is every topic. Without a file everybody may do
everything, so a service then listens on loopback alone.
"""

import hashlib
import hmac
import logging
import secrets
import sys
import tomllib
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from sparklog.errors import InvalidConfigError, InvalidOptionError

log: Final = logging.getLogger("sparklog.tokens")


class Scope(StrEnum):
    """What a token may be allowed to do with topics."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Grant(BaseModel):
    """Scopes on the topics whose names begin with `prefix`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: str
    scopes: frozenset[Scope]


class Token(BaseModel):
    """One entry of the file: a name, the hash of the token, and its grants."""

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
"""Whoever asks, where there is no file of tokens."""


class Tokens:
    """The tokens of a service, as their file has them now; without a file everybody is known.

    The file is looked at with every question and read again when it has changed. One that cannot be
    read is told to the log, and the tokens stay as they are.
    """

    def __init__(self, path: Path | None) -> None:
        """Read the file. Raises InvalidConfigError for one that cannot be read or understood."""
        self._path = path
        if path is not None:
            self._stamp = _stamp(path)
            self._tokens = _read(path)

    def known(self, secret: str) -> Token | None:
        """Return the token that is shown, None for an unknown one; without a file EVERYBODY."""
        if self._path is None:
            return EVERYBODY
        self._follow(self._path)
        shown = hashlib.sha256(secret.encode()).hexdigest()
        found = [token for token in self._tokens if hmac.compare_digest(token.sha256, shown)]
        return found[0] if found else None

    def _follow(self, path: Path) -> None:
        stamp = _stamp(path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._tokens = _read(path)
        except InvalidConfigError as error:
            log.error("%s; the tokens stay as they were", error)
        else:
            log.info("file of tokens %s read again: %d tokens", path, len(self._tokens))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file's content; None for a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[Token, ...]:
    try:
        found = TokenFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise InvalidConfigError(f"file of tokens {path}: {error}") from error
    return found.tokens


def check_listening(host: str, tokens_file: Path | None) -> None:
    """Raise InvalidOptionError when a service would listen beyond loopback without tokens."""
    if tokens_file is None and not is_loopback(host):
        raise InvalidOptionError(
            f"host {host} listens beyond this machine: that needs a tokens_file", option="host"
        )


@lru_cache(maxsize=100)
def is_loopback(host: str) -> bool:
    """Whether an address, or `localhost`, is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def new_token() -> tuple[str, str]:
    """Return a new token and its SHA-256 in hex."""
    token = secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


if __name__ == "__main__":
    sys.stdout.write("token  {}\nsha256 {}\n".format(*new_token()))
