"""What kernels are made of when they run as plain Python: numba takes 0.1 s to load."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class AnyType:
    """Stands for numba's types: whatever is made of it is another."""

    def __getattr__(self, _name: str) -> "AnyType":
        return AnyType()

    def __call__(self, *_members: Any, **_options: Any) -> "AnyType":
        return AnyType()


def plain_njit(*_signature: Any, **_options: Any) -> Callable[[F], F]:
    """Leave a function as it is."""
    return lambda function: function
