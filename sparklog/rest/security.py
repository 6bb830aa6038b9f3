"""Tokens over HTTP: `Authorization: Bearer …`, and the answers 401 and 403.

Requests that concern no topic (clusters, metrics) need a token, but no grant.
"""

import base64
import binascii

from sparklog.rest.errors import FORBIDDEN, UNAUTHENTICATED, ApiError
from sparklog.tokens import Resource, Scope, Token, Tokens


def authenticated(tokens: Tokens, authorization: str | None, *, is_page: bool = False) -> Token:
    """Return the token of an Authorization header. Raises ApiError (401).

    With `is_page` the header may also be Basic, with the token as password: a browser asks for it.
    """
    token = tokens.known(_secret(authorization or "", is_page))
    if token is None:
        scheme = "Basic" if is_page else "Bearer"
        header = {"WWW-Authenticate": f'{scheme} realm="sparklog"'}
        raise ApiError(
            UNAUTHENTICATED, "no valid token: send `Authorization: Bearer TOKEN`", header
        )
    return token


def check(token: Token, scope: Scope, name: str, resource: Resource = Resource.TOPIC) -> None:
    """Raise ApiError (403) unless the token has the scope on a topic or group.

    It need not exist.
    """
    if not token.allows(scope, name, resource):
        raise ApiError(FORBIDDEN, f"this token has no {scope} access to {resource} {name!r}")


def check_any(token: Token, scope: Scope) -> None:
    """Raise ApiError (403) if the token does not have the scope on any topic."""
    if not token.allows_somewhere(scope):
        raise ApiError(FORBIDDEN, f"this token has no {scope} access")


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
