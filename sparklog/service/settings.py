"""Settings of a service: options of its command, or variables of the environment.

The variable of a setting is `SPARKLOG_` and its name in capitals; an empty one counts as not given,
as Compose and systemd write it. The option is `--` and its name with dashes; it wins over the
variable. Several values are given by repeating the option, or with commas in the variable, as in
Kafka's configuration.
"""

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
    try:
        return kind(**options or {})
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
