"""Loops over bytes, compiled by numba: numpy arrays in, numpy arrays and status numbers out.

Each module holds the kernels of one way through the bytes and is loaded when first imported.
Every kernel has an explicit signature and is kept in numba's cache, so nothing is compiled inside
a job once `warm_up()` (or `python -m sparklog.record.kernels`) has run on the machine. With
NUMBA_DISABLE_JIT=1, or after `run_plain()`, the same code runs as plain Python.

A kernel never reads or writes out of bounds, whatever the bytes say, and never raises: it
returns a status and its caller raises. Integers are int64 throughout; what may wrap goes through
`primitives.wrapping_add` and `wrapping_sub`.
"""

import os
from importlib import import_module
from pkgutil import iter_modules

_mode = {"is_plain": os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")}


def is_plain() -> bool:
    """Whether kernels run as plain Python. Asked once, when the first kernel is loaded."""
    return _mode["is_plain"]


def run_plain() -> None:
    """Let kernels run as plain Python in this process; no effect once a kernel is loaded.

    For a process that reads a few batches and ends: loading the compiled kernels takes half a
    second, reading a batch without them some 2 ms more.
    """
    _mode["is_plain"] = True


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
