"""How obstore's client is configured: its addresses and credentials, its timeouts and retries."""

from datetime import timedelta
from typing import Any, Final

from sparklog.storage.settings import StorageOptions

RETRIES: Final = 10
"""How often a failed request is tried again, unless MAX_RETRIES says otherwise."""
RETRY_SECONDS: Final = 60
"""For how long after its first try, unless RETRY_TIMEOUT says otherwise."""
BACKOFF_SECONDS_MAX: Final = 3
"""The longest pause between two tries."""


def config_of(options: StorageOptions, store: str) -> dict[str, Any]:
    """Return the settings of one of STORES by obstore's names.

    What is said of HTTP stands in `client_options`, which would replace it here.
    """
    allow_http = f"{store}_ALLOW_HTTP".lower()
    return {name: value for name, value in options.of(store).items() if name != allow_http}


def client_options(options: StorageOptions, store: str) -> dict[str, Any]:
    """Return obstore's ClientConfig; a timeout that is not set is obstore's own."""
    found: dict[str, Any] = {"allow_http": options.is_true(f"{store}_ALLOW_HTTP")}
    for name in ("TIMEOUT", "CONNECT_TIMEOUT"):
        seconds = options.seconds(name)
        if seconds is not None:
            found[name.lower()] = timedelta(seconds=seconds)
    return found


def retry_config(options: StorageOptions) -> dict[str, Any]:
    """Return obstore's RetryConfig."""
    retries, seconds = options.count("MAX_RETRIES"), options.seconds("RETRY_TIMEOUT")
    return {
        "max_retries": RETRIES if retries is None else retries,
        "backoff": {"max_backoff": timedelta(seconds=BACKOFF_SECONDS_MAX)},
        "retry_timeout": timedelta(seconds=RETRY_SECONDS if seconds is None else seconds),
    }
