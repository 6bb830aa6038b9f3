"""Settings of a service: options of its command, or variables of the environment.

The variable of a setting is `SPARKLOG_` and its name in capitals. An empty one counts as not given,
as Compose and systemd write it, but not where it would let more clients in. The option is `--` and
the name with dashes; it wins over the variable. Several values are given by repeating the option,
or with commas in the variable, as in Kafka's configuration.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BeforeValidator, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from sparklog.errors import InvalidOptionError

PREFIX: Final = "SPARKLOG_"
CONFIG: Final = SettingsConfigDict(
    env_prefix=PREFIX, env_ignore_empty=True, frozen=True, use_attribute_docstrings=True
)
"""How a service's settings are read."""
NEVER_EMPTY: Final = ("tokens_file", "sasl_enabled_mechanisms")
"""Settings whose empty variable is refused: if a value got lost, nobody is let in without it."""
Settings = TypeVar("Settings", bound=BaseSettings)


def split(value: Any) -> Any:
    """Return the values of a comma-separated text, without spaces; any other value as it is."""
    if not isinstance(value, str):
        return value
    return tuple(one.strip() for one in value.split(",") if one.strip())


Texts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split)]
"""A setting of several texts. (NoDecode: its variable is not JSON.)"""


def settings_of(kind: type[Settings], options: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings: `options` by name; the environment for those that are not given.

    Raises InvalidOptionError, which names every setting that is missing or wrong.
    """
    given = options or {}
    for name in NEVER_EMPTY:
        is_given = name in given or name not in kind.model_fields
        if not is_given and os.environ.get(variable_of(name)) == "":
            where = f"{option_of(name)} ({variable_of(name)})"
            raise InvalidOptionError(f"{where}: is empty; set it or remove it", option=name)
    try:
        return kind(**given)
    except ValidationError as error:
        problems = [(str(one["loc"][0]), one["msg"]) for one in error.errors()]
    raise InvalidOptionError(
        "; ".join(f"{option_of(name)} ({variable_of(name)}): {told}" for name, told in problems),
        option=problems[0][0],
    )


def option_of(name: str) -> str:
    """Return the option of a setting: `tokens_file` has `--tokens-file`."""
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """Return the variable of a setting: `tokens_file` has SPARKLOG_TOKENS_FILE."""
    return f"{PREFIX}{name.upper()}"
