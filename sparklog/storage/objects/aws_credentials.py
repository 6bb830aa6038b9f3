"""Credentials from AWS's usual sources that obstore does not know; obstore renews them.

obstore itself reads the environment's keys, web identity, the container service (by its relative
address, or with a token's file), and the instance's service. This module adds:

    the container service by its full address, with its token in the environment or without one
    profiles of the shared credentials file that hold keys

A provider is a callable that returns a credential and its expiry, as obstore asks for them. The
process that connects reads all sources.
"""

import configparser
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypedDict
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from sparklog.clock import Clock, SystemClock
from sparklog.errors import StoragePermissionError

TIMEOUT_S = 10


class Credential(TypedDict):
    """A credential as obstore takes it; obstore asks for a new one before `expires_at`."""

    access_key_id: str
    secret_access_key: str
    token: str | None
    expires_at: datetime | None


Provider = Callable[[], Credential]


def given(options: Mapping[str, str]) -> Provider | None:
    """Return a provider of the options' keys, None without keys; the environment adds nothing."""
    if "AWS_ACCESS_KEY_ID" not in options:
        return None
    credential = Credential(
        access_key_id=options["AWS_ACCESS_KEY_ID"],
        secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        token=options.get("AWS_SESSION_TOKEN"),
        expires_at=None,
    )
    return lambda: credential


def provided(environ: Mapping[str, str]) -> Provider | None:
    """Return the provider that the environment names; None if obstore knows the source itself."""
    if environ.get("AWS_ACCESS_KEY_ID") or environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return None
    address = environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if address and not environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        return ContainerCredentials(address, environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"))
    if address or environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return None
    return _profile(environ)


class ContainerCredentials:
    """A provider that asks a container's credentials endpoint.

    obstore asks from five minutes before the end of a credential on. If the endpoint fails
    meanwhile, the last credential is returned again as long as it is valid.
    """

    def __init__(self, address: str, token: str | None, clock: Clock | None = None) -> None:
        self._address = address
        self._headers = {"Authorization": token} if token else {}
        self._clock = clock or SystemClock()
        self._last: Credential | None = None

    def __call__(self) -> Credential:
        """Return a credential. Raises StoragePermissionError if there is none."""
        if urlsplit(self._address).scheme not in {"http", "https"}:
            raise StoragePermissionError(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI is not an address; allowed: http[s]://host/path"
            )
        try:
            self._last = self._asked()
        except (OSError, ValueError, KeyError, TypeError) as error:
            if self._last is None or self._has_ended(self._last["expires_at"]):
                raise StoragePermissionError(
                    "AWS_CONTAINER_CREDENTIALS_FULL_URI gives no credentials: "
                    f"{type(error).__name__}"
                ) from None
        return self._last

    def _asked(self) -> Credential:
        request = Request(self._address, headers=self._headers)  # noqa: S310 - checked above
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - checked above
            found = json.load(answer)
        return Credential(
            access_key_id=found["AccessKeyId"],
            secret_access_key=found["SecretAccessKey"],
            token=found.get("Token"),
            expires_at=_time(found.get("Expiration")),
        )

    def _has_ended(self, end: datetime | None) -> bool:
        return end is not None and end.timestamp() * 1000 <= self._clock.now_ms()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _profile(environ: Mapping[str, str]) -> Provider | None:
    """Return a provider of the keys of AWS_PROFILE, or the default profile; None without keys."""
    path = environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    name = environ.get("AWS_PROFILE", "default")
    parser = configparser.RawConfigParser()
    try:
        parser.read(path)
        profile = dict(parser[name])
        credential = Credential(
            access_key_id=profile["aws_access_key_id"],
            secret_access_key=profile["aws_secret_access_key"],
            token=profile.get("aws_session_token"),
            expires_at=None,
        )
    except (OSError, KeyError, configparser.Error):
        return None
    return lambda: credential
