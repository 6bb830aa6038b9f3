"""How kernels are compiled: the one place for options and for the types of signatures.

With the JIT off, kernels run as plain Python, and numba, which takes 0.1 s to load, is not
imported.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from sparklog.record.kernel_cache import COMPLETE, SOURCES_DIGEST
from sparklog.record.kernels import is_plain

F = TypeVar("F", bound=Callable[..., Any])


class AnyType:
    """Replaces numba's types with the JIT off: a call or an attribute returns another one."""

    def __getattr__(self, _name: str) -> "AnyType":
        return AnyType()

    def __call__(self, *_members: Any, **_options: Any) -> "AnyType":
        return AnyType()


def plain_njit(*_signature: Any, **_options: Any) -> Callable[[F], F]:
    """Take the place of numba's njit with the JIT off: return the function as it is."""
    return lambda function: function


JIT_OFF = is_plain()
"""Whether kernels run as plain Python, without loading numba."""

# Any: numba annotates neither the constructors of its types nor the option `_nrt`.
types: Any = AnyType()
njit: Any = plain_njit
if not JIT_OFF:  # pragma: no cover - coverage is measured with the JIT off
    import numba

    types, njit = numba.types, numba.njit

# Without numba's runtime (_nrt) no references are counted. With it, inlined functions count the
# references to their arrays in the loop, which makes encoding thirty times slower.
_OPTIONS: Final = {"nogil": True, "_nrt": False}

KERNELS: list[tuple[str, str]] = []
"""(module, function) of every kernel loaded so far."""

bytes_in = types.Array(types.uint8, 1, "C", readonly=True)
bytes_out = types.Array(types.uint8, 1, "C")
int32s_in = types.Array(types.int32, 1, "C", readonly=True)
int32s_out = types.Array(types.int32, 1, "C")
int64s_in = types.Array(types.int64, 1, "C", readonly=True)
int64s_out = types.Array(types.int64, 1, "C")
int64_matrix_out = types.Array(types.int64, 2, "C")
int64 = types.int64


def kernel(signature: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a function for exactly this signature, on import.

    Arguments of a type `…_in` may be read-only or writable arrays; inside a NamedTuple the match is
    exact, so these must be read-only. A kernel works on the arrays it is given and cannot make new
    ones.
    """

    def decorate(function: F) -> F:
        KERNELS.append((function.__module__, function.__name__))
        # It is the name of the cache file. Numba itself compares only the kernel's own file, and
        # would go on using old code after a change in a function inlined from another file.
        function.__qualname__ = f"{function.__name__}.{SOURCES_DIGEST}"
        try:
            return cast("F", njit(signature, cache=True, **_OPTIONS)(function))
        except RuntimeError:
            # Numba found no folder that it may write to, so every process compiles for itself.
            return cast("F", njit(signature, **_OPTIONS)(function))

    return decorate


def complete_mark() -> Path | None:
    """Return the file that says that the cache has all kernels of these sources.

    None with the JIT off, and if numba finds no folder for a cache.
    """
    if JIT_OFF:
        return None
    try:  # pragma: no cover - coverage is measured with the JIT off
        folder = njit(cache=True)(origin).stats.cache_path  # compiles nothing before a call
    except RuntimeError:  # pragma: no cover
        return None
    return Path(folder) / COMPLETE  # pragma: no cover


def origin(module: str, name: str) -> str:
    """Return where a kernel comes from: `compiled` now, `cached`, or `plain` with the JIT off."""
    stats = getattr(getattr(import_module(module), name), "stats", None)
    if stats is None:
        return "plain"
    return "cached" if stats.cache_hits else "compiled"


def inlined(function: F) -> F:
    """Mark a function that exists only inside kernels: its body replaces each call."""
    return cast("F", njit(inline="always", _nrt=False)(function))


def named_tuple(cls: type, *members: Any) -> Any:
    """Return the numba type of a NamedTuple class whose fields have these types, in order."""
    return types.NamedTuple(members, cls)
