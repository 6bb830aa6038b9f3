"""A configuration key: its type, its bounds, its parser, and the message that refuses a value.

Types and their text forms are those of org.apache.kafka.common.config.ConfigDef: text is trimmed,
booleans ignore case, lists are separated by commas, INT is 32 and LONG is 64 bits wide. One rule is
stricter: a DOUBLE must be finite; ConfigDef.Range accepts NaN.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sparklog.config.partitioners import BUILT_IN
from sparklog.errors import InvalidConfigError

ConfigValue = bool | int | float | str | tuple[str, ...]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(StrEnum):
    """The type of a value, which is given as text (ConfigDef.Type)."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The allowed values of a type. `text` names them in errors: "… is not allowed: it takes …"."""

    text: str
    accept: Callable[[ConfigValue], bool]


def at_least(minimum: int, maximum: int = LONG_MAX) -> Bounds:
    """Allow the integers from `minimum` to `maximum` (ConfigDef.Range.atLeast)."""
    text = f"an integer from {minimum} to {maximum}"
    return Bounds(text, lambda value: _within(value, minimum, maximum))


def between(minimum: float, maximum: float, also: float | None = None) -> Bounds:
    """Allow the numbers from `minimum` to `maximum` (ConfigDef.Range.between), and `also`."""
    text = f"a number from {minimum} to {maximum}" + ("" if also is None else f", or {also}")
    return Bounds(text, lambda value: value == also or _within(value, minimum, maximum))


def one_of(*allowed: str) -> Bounds:
    """Allow only these words (ConfigDef.ValidString.in)."""
    return Bounds(_one_of_text(allowed), lambda value: value in allowed)


def boolean() -> Bounds:
    """Allow true and false."""
    return Bounds("true or false", lambda value: isinstance(value, bool))


def list_of(*allowed: str) -> Bounds:
    """Allow lists of these words, the empty one included (ConfigDef.ValidList.in)."""
    text = f"a comma-separated list of {_one_of_text(allowed)}"
    return Bounds(text, lambda value: isinstance(value, tuple) and set(value) <= set(allowed))


def matching(pattern: str, text: str) -> Bounds:
    """Allow the texts that the whole regex `pattern` matches; `text` describes it to users."""
    return Bounds(text, lambda value: re.fullmatch(pattern, str(value)) is not None)


def partitioner() -> Bounds:
    """Allow the names of the built-in partitioners, and module:function."""
    pattern = "|".join([*BUILT_IN, r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"])
    return matching(pattern, f"{', '.join(BUILT_IN)} or module:function")


def replicas() -> Bounds:
    """Allow `*`, or a list of partition:broker (ThrottledReplicaListValidator)."""

    def accept(value: ConfigValue) -> bool:
        pairs = value if isinstance(value, tuple) else ()
        return pairs == ("*",) or all(re.fullmatch("[0-9]+:[0-9]+", pair) for pair in pairs)

    return Bounds("* or a comma-separated list of partition:broker", accept)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of a table of keys.

    `default` is text, as a user would write it. A key of Kafka's that has no meaning without
    brokers has `is_used` False: its value is checked, kept and shown, and changes nothing.
    """

    name: str
    type: ConfigType
    default: str
    bounds: Bounds
    doc: str
    is_used: bool = True

    @property
    def field(self) -> str:
        """The field of TopicConfig: retention.ms is retention_ms; `sparklog.` is left out."""
        return self.name.removeprefix("sparklog.").replace(".", "_")

    def parse(self, value: object) -> ConfigValue:
        """Return `value` as the key's type.

        A value that is not text counts as its text: -1 is "-1", True is "true". Raises
        InvalidConfigError, which names the key, the value and the allowed values.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        parsed = _PARSERS[self.type](text)
        if parsed is None or not self.bounds.accept(parsed):
            raise InvalidConfigError(
                f"{self.name}={text!r} is not allowed: it takes {self.bounds.text}",
                key=self.name,
                value=text,
            )
        return parsed


def _within(value: ConfigValue, minimum: float, maximum: float) -> bool:
    return isinstance(value, int | float) and minimum <= value <= maximum


def _one_of_text(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _parse_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _parse_integer(text: str) -> int | None:
    # int() alone would also accept underscores, and numbers of any length.
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,40}", text) else None


def _parse_double(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


_PARSERS: dict[ConfigType, Callable[[str], ConfigValue | None]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.INT: _parse_integer,
    ConfigType.LONG: _parse_integer,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.STRING: str,
    ConfigType.LIST: _parse_list,
}
