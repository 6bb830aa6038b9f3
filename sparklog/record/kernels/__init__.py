"""Loops over bytes, compiled by numba: numpy arrays in, numpy arrays and status numbers out.

Each module holds the kernels of one way through the bytes and is loaded when first imported.
Every kernel has an explicit signature and is kept in numba's cache, so nothing is compiled inside
a job once `warm_up()` (or `python -m sparklog.record.kernels`) has run on the machine. With
NUMBA_DISABLE_JIT=1 the same code runs as plain Python.

A kernel never reads or writes out of bounds, whatever the bytes say, and never raises: it
returns a status and its caller raises. Integers are int64 throughout; what may wrap goes through
`primitives.wrapping_add` and `wrapping_sub`.
"""

from importlib import import_module
from pkgutil import iter_modules


def warm_up() -> dict[str, str]:
    """Loads every kernel, compiling those that are not in the cache.

    Returns where each came from, by `<module>.<function>`: `compiled`, `cached`, or `plain` with
    the JIT off.
    """
    jit = import_module(f"{__name__}.jit")
    for module in iter_modules(__path__):
        if module.name != "__main__":
            import_module(f"{__name__}.{module.name}")
    return {
        f"{module.rpartition('.')[2]}.{name}": jit.origin(module, name)
        for module, name in jit.KERNELS
    }
