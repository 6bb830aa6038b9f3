"""Functions that fail, in place of those that a test patches."""

from collections.abc import Awaitable, Callable
from typing import Any


def failing(kind: type[Exception], *told: object) -> Callable[..., Any]:
    """A function that raises an error of a kind, a new one at each call."""

    def fails(*_: object, **__: object) -> Any:
        raise kind(*told)

    return fails


def failing_later(kind: type[Exception], *told: object) -> Callable[..., Awaitable[Any]]:
    """The same for a coroutine function: it fails when its result is awaited."""

    async def fails(*_: object, **__: object) -> Any:
        raise kind(*told)

    return fails
