"""Bearer tokens and their grants. A file has the tokens' hashes, and scopes for name prefixes.

    [[tokens]]                                        (TOML)
    name = "etl"
    sha256 = "<hex of the token's SHA-256>"           python -m sparklog.tokens makes a token
    grants = [{ prefix = "flights", scopes = ["read", "write"] }]

    [[users]]                                         of the gateway; passwords: `sparklog users`
    name = "alice"
    grants = [{ prefix = "flights", scopes = ["read"] },
              { prefix = "alice-", scopes = ["read"], resource = "group" }]

A token is 32 random bytes that nobody can guess, so a plain hash is enough. All hashes are
compared, each in constant time. A grant is for topics unless it has a `resource`. The prefix ""
covers all names. Without a file everybody may do everything, so a service then listens on loopback
only.
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
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sparklog.errors import InvalidConfigError, InvalidOptionError
from sparklog.service.watched_files import WatchedFiles

log: Final = logging.getLogger("sparklog.tokens")


class Resource(StrEnum):
    """Kinds of resources (org.apache.kafka.common.resource.ResourceType)."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"
    """Users and brokers, which have no names of their own: only a prefix of "" covers them."""


class Scope(StrEnum):
    """A kind of access of a principal to a resource."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Grant(BaseModel):
    """Scopes on the resources of one kind whose names begin with `prefix`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: str
    scopes: frozenset[Scope]
    resource: Resource = Resource.TOPIC


class Principal(BaseModel):
    """An authenticated client: a name, and grants."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    grants: tuple[Grant, ...]

    def allows(self, scope: Scope, name: str, resource: Resource = Resource.TOPIC) -> bool:
        """Whether a grant has the scope for this resource."""
        for grant in self.grants:
            is_of_kind = scope in grant.scopes and grant.resource == resource
            if is_of_kind and name.startswith(grant.prefix):
                return True
        return False

    def sees(self, name: str, resource: Resource = Resource.TOPIC) -> bool:
        """Whether a grant has any scope for this resource."""
        for grant in self.grants:
            if grant.scopes and grant.resource == resource and name.startswith(grant.prefix):
                return True
        return False

    def allows_somewhere(self, scope: Scope, resource: Resource = Resource.TOPIC) -> bool:
        """Whether a grant has the scope for any resource of a kind."""
        return any(scope in one.scopes and one.resource == resource for one in self.grants)


class Token(Principal):
    """One token of the file: a client that shows it has its grants."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class TokenFile(BaseModel):
    """The whole file. `users` are SCRAM users; the log dir has their passwords."""

    # An error must not show a secret that stands in a wrong place.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    tokens: tuple[Token, ...] = ()
    users: tuple[Principal, ...] = ()

    def token(self, sha256: str) -> Token | None:
        """Return the token with this hash; None if there is none."""
        found = [one for one in self.tokens if hmac.compare_digest(one.sha256, sha256)]
        return found[0] if found else None

    def user(self, name: str) -> Principal:
        """Return a user with the grants of all its entries: none if the file does not name it."""
        entries = [one for one in self.users if one.name == name]
        return Principal(name=name, grants=tuple(chain(*(one.grants for one in entries))))

    def again(self, principal: Principal) -> Principal | None:
        """Return a known client with its grants of this file; None if its token is not in it."""
        if not isinstance(principal, Token):
            return self.user(principal.name)
        found = self.token(principal.sha256)
        return found if found is not None and found.name == principal.name else None


EVERYBODY: Final = Token(
    name="everybody",
    sha256="0" * 64,
    grants=tuple(Grant(prefix="", scopes=frozenset(Scope), resource=one) for one in Resource),
)
"""Every client where nobody authenticates: at a service without a file of tokens, and at a
gateway's listener without SASL."""


def name_of(client: Principal | None) -> str | None:
    """Return the name of a client that has shown who it is; None for any other."""
    return None if client is None or client is EVERYBODY else client.name


class Tokens:
    """The tokens and users of a service. Without a file every client is EVERYBODY.

    Each call reads the file again if it has changed. If that fails, an error is logged, and the
    tokens stay as they were.
    """

    def __init__(self, path: Path | None) -> None:
        """Read the file. Raises InvalidConfigError if it cannot be read or parsed."""
        self._path = path
        self._file: TokenFile | None = None
        if path is not None:
            self._watched = WatchedFiles(path)
            self._file = _read(path)

    @property
    def file(self) -> TokenFile | None:
        """The file, another object after each change; None without a file."""
        if self._path is not None and self._watched.have_changed():
            self._read_again(self._path)
        return self._file

    def known(self, secret: str) -> Token | None:
        """Return the token with this secret, None if there is none. Without a file: EVERYBODY."""
        file = self.file
        return EVERYBODY if file is None else file.token(_hash(secret))

    def user(self, name: str) -> Principal:
        """Return a user with its grants (`TokenFile.user`). Without a file: EVERYBODY."""
        file = self.file
        return EVERYBODY if file is None else file.user(name)

    def _read_again(self, path: Path) -> None:
        try:
            self._file = _read(path)
        except InvalidConfigError as error:
            log.error("%s; the tokens stay as they were", error)
        else:
            log.info("file of tokens %s read again: %d tokens", path, len(self._file.tokens))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _read(path: Path) -> TokenFile:
    try:
        return TokenFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        told = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise InvalidConfigError(f"file of tokens {path}: {'; '.join(told)}") from error
    except (OSError, ValueError) as error:
        raise InvalidConfigError(f"file of tokens {path}: {error}") from error


def check_listening(host: str, tokens_file: Path | None) -> None:
    """Raise InvalidOptionError when a service would listen beyond loopback without tokens."""
    if tokens_file is None and not is_loopback(host):
        raise InvalidOptionError(
            f"host {host} listens beyond this machine: that needs --tokens-file; "
            "python -m sparklog.tokens makes a token",
            option="host",
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
    return token, _hash(token)


if __name__ == "__main__":
    sys.stdout.write("token  {}\nsha256 {}\n".format(*new_token()))
