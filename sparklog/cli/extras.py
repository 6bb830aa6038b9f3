"""The error of a command whose extra is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from sparklog.errors import UsageError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Raise UsageError, which names the extra, if a module that it installs is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "sparklog":
            raise
        raise UsageError(
            f"this needs the module {error.name}: pip install 'sparklog[{name}]'"
        ) from error
