"""The configuration of obstore's client: addresses, credentials, timeouts and retries."""

from collections.abc import MutableMapping
from datetime import timedelta
from typing import Any, Final

from sparklog.storage.settings import StorageOptions

RETRIES: Final = 10
"""How often a failed request is tried again, if MAX_RETRIES is not set."""
RETRY_SECONDS: Final = 60
"""For how many seconds after its first try a request is repeated, if RETRY_TIMEOUT is not set."""
BACKOFF_SECONDS_MAX: Final = 3
"""The longest pause between two tries; the first one is 0.1 s."""
BACKOFF_TIMES: Final = 10
"""A pause is a random time up to this many times the one before. Ten tries take some 20 seconds.
With obstore's 2 they took two seconds: the pauses hardly grew, as half of them were shorter."""


def config_of(options: StorageOptions, store: str) -> dict[str, str]:
    """Return the settings of `store`, one of STORES, by obstore's names.

    ALLOW_HTTP is left out: it belongs to `client_options`. Given here, it would replace them.
    """
    return {
        name.lower(): value
        for name, value in options.items()
        if name.startswith(f"{store}_") and name != f"{store}_ALLOW_HTTP"
    }


def chosen_credential(options: StorageOptions) -> dict[str, str]:
    """Return the setting that names the kind of the credential; {} leaves the choice to obstore."""
    for name, kind in (
        ("AZURE_STORAGE_TOKEN", "bearer_token"),
        ("AZURE_STORAGE_ACCOUNT_KEY", "access_key"),
        ("AZURE_STORAGE_CLIENT_SECRET", "client_secret"),
        ("AZURE_STORAGE_SAS_TOKEN", "sas_token"),
    ):
        if name in options:
            return {"azure_credential_type": kind}
    return {}


def forget_empty(environ: MutableMapping[str, str], store: str) -> None:
    """Remove the empty variables of `store`: obstore, which reads them, takes "" for a value.

    An empty AWS_SESSION_TOKEN would be sent, and empty keys would hide those of the machine.
    """
    for name in list(environ):
        if name.startswith(f"{store}_") and not environ.get(name):
            environ.pop(name, None)


def client_options(options: StorageOptions, store: str) -> dict[str, Any]:
    """Return obstore's ClientConfig; a timeout that is not set has obstore's default."""
    found: dict[str, Any] = {"allow_http": options.is_true(f"{store}_ALLOW_HTTP")}
    for name in ("TIMEOUT", "CONNECT_TIMEOUT"):
        seconds = options.seconds(name)
        if seconds is not None:
            found[name.lower()] = timedelta(seconds=seconds)
    return found


def retry_config(options: StorageOptions) -> dict[str, Any]:
    """Return obstore's RetryConfig, with the defaults of this module."""
    retries, seconds = options.count("MAX_RETRIES"), options.seconds("RETRY_TIMEOUT")
    return {
        "max_retries": RETRIES if retries is None else retries,
        "backoff": {"max_backoff": timedelta(seconds=BACKOFF_SECONDS_MAX), "base": BACKOFF_TIMES},
        "retry_timeout": timedelta(seconds=RETRY_SECONDS if seconds is None else seconds),
    }
