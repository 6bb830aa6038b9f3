"""The error of a command whose extra is not installed.

with extra("rest"):                  the imports in the block need it
check_extra("spark", "pyspark")      before other imports, which may take a minute
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from sparklog.errors import UsageError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Raise UsageError, which names the extra, if a module that it installs is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "sparklog":
            raise
        raise _missing(name, error.name) from error


def check_extra(name: str, module: str) -> None:
    """Raise UsageError as `extra` if a module is missing; do not load it."""
    if find_spec(module) is None:
        raise _missing(name, module)


def _missing(name: str, module: str) -> UsageError:
    return UsageError(f"this needs the module {module}: pip install 'sparklog[{name}]'")
