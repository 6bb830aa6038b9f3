"""NAME=VALUE texts of a command line."""

from collections.abc import Iterable

from sparklog.errors import InvalidOptionError


def pairs(texts: Iterable[str], option: str, *, is_secret: bool = False) -> dict[str, str]:
    """Return NAME=VALUE texts as a dict; a later text of the same name wins.

    `option` is the name of the option that holds the texts. Raises InvalidOptionError for a text
    without `=` or without a name; the message leaves the text out if `is_secret`.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            shown = "" if is_secret else f" {text!r}"
            raise InvalidOptionError(f"{option}{shown}: allowed is NAME=VALUE", option=option)
        found[name.strip()] = value
    return found
