"""The JSON values in edits: how each is written and read.

A value of a wrong type is refused, so every decoded edit can be applied.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from sparklog.errors import UnsupportedFeatureError

Json = dict[str, Any]

INT64: Final = 2**63


class Member(NamedTuple):
    """How a field of a class is written and read; `decode` raises ValueError for a wrong type."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def same(value: Any) -> Any:
    """Return a value as it is."""
    return value


def refused(value: object, wanted: str) -> ValueError:
    """Return the error for a value of a wrong type."""
    return ValueError(f"{value!r:.80} where {wanted} belongs")


def integer(value: object) -> int:
    """Return a number that fits 64 bits. Raises ValueError for any other value."""
    if type(value) is not int or not -INT64 <= value < INT64:
        raise refused(value, "an integer")
    return value


def text(value: object) -> str:
    """Return a string. Raises ValueError for any other value."""
    if type(value) is not str:
        raise refused(value, "a string")
    return value


def texts(value: object) -> dict[str, str]:
    """Return an object of strings. Raises ValueError for any other value."""
    return {name: text(one) for name, one in mapping(value).items()}


def flag(value: object) -> bool:
    """Return a boolean. Raises ValueError for any other value."""
    if type(value) is not bool:
        raise refused(value, "true or false")
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object. Raises ValueError for any other value."""
    if not isinstance(value, dict):
        raise refused(value, "an object")
    return value


def listed(value: object) -> list[Any]:
    """Return a list. Raises ValueError for any other value."""
    if not isinstance(value, list):
        raise refused(value, "a list")
    return value


def integers(value: object) -> list[int]:
    """Return a list of numbers that fit 64 bits. Raises ValueError for any other value."""
    return [integer(one) for one in listed(value)]


def all_are(kind: type, values: Iterable[Any]) -> bool:
    """Whether the type of each value is `kind`, not a class derived from it."""
    return set(map(type, values)) <= {kind}


def are_integers(values: Collection[Any]) -> bool:
    """Whether all values are numbers that fit 64 bits."""
    return all_are(int, values) and (not values or (max(values) < INT64 and min(values) >= -INT64))


def check_integers(values: Collection[Any]) -> None:
    """Raise ValueError unless all values are numbers that fit 64 bits."""
    if not are_integers(values):
        raise refused(values, "integers")


def check_names(what: str, found: Iterable[str], known: Iterable[str]) -> None:
    """Raise UnsupportedFeatureError for members of `what` that are not known."""
    unknown = sorted(set(found).difference(known))
    if unknown:
        raise UnsupportedFeatureError(
            f"the {what} has members that this release does not know: {', '.join(unknown)}; "
            f"upgrade sparklog"
        )


def all_of(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decoder of lists, whose values `decode` decodes."""
    return lambda value: tuple(map(decode, listed(value)))


def by_number(encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> Member:
    """Return the Member of a mapping by number, whose values `encode` and `decode` convert."""
    return Member(
        lambda value: {str(number): encode(one) for number, one in value.items()},
        lambda value: {int(number): decode(one) for number, one in mapping(value).items()},
    )


def lists(value: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Return each value, which has several fields, as a list."""
    return [list(one) for one in value]


INTEGER: Final = Member(same, integer)
TEXT: Final = Member(same, text)
TEXTS: Final = Member(list, all_of(text))
