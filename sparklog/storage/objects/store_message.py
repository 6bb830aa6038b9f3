"""The message of an object store's client, as an error of ours repeats it."""

import re
from typing import Final

REASON_MAX: Final = 500
"""How many characters of a store's message an error repeats at most."""

NO_CREDENTIALS: Final = (
    "no credentials in the storage options and in the environment, and none of the machine's "
    "metadata service"
)
_METADATA_SERVICE: Final = re.compile(r"http://(169\.254\.169\.254|metadata\.google\.internal)/")
"""Where a client looks for credentials if it has found none before."""


def plain_message(text: str) -> str:
    """Return a message in one line, without query strings: they may hold signatures."""
    message = text.partition("\n\nDebug source")[0]
    if _METADATA_SERVICE.search(message):
        message = f"{NO_CREDENTIALS}: {message}"
    plain = re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", " ".join(message.split()))
    return plain if len(plain) <= REASON_MAX else f"{plain[:REASON_MAX]}…"
