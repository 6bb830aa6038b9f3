"""Loops over bytes, compiled by numba: numpy arrays in, numpy arrays and status numbers out.

Each module has the kernels of one task, and is loaded when it is first imported. Every kernel has
an explicit signature and is kept in numba's cache: after `warm_up()` (or
`python -m sparklog.record.kernels`) has run on a machine, no job has to compile. With
NUMBA_DISABLE_JIT=1, or after `run_plain()`, the same code runs as plain Python.

A kernel never reads or writes out of bounds, whatever the bytes are, and never raises: it returns a
status, and its caller raises. Integers are int64 throughout; a sum or a difference that may wrap
goes through `primitives.wrapping_add` or `wrapping_sub`.
"""

import os
from importlib import import_module
from pkgutil import iter_modules

_mode = {"is_plain": os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")}


def is_plain() -> bool:
    """Whether kernels run as plain Python; `jit` asks once, when the first kernel is loaded."""
    return _mode["is_plain"]


def run_plain() -> None:
    """Let kernels run as plain Python in this process; no effect once a kernel is loaded.

    For a process that reads a few batches and ends: to load the compiled kernels takes half a
    second, and to read a batch takes only about 2 ms more without them.
    """
    _mode["is_plain"] = True


def warm_up() -> dict[str, str]:
    """Load every kernel, and compile those that are not in the cache.

    Returns, by `<module>.<function>`, where each comes from: `compiled`, `cached`, or `plain` with
    the JIT off.
    """
    jit = import_module(f"{__name__}.jit")
    for module in iter_modules(__path__):
        if module.name != "__main__":
            import_module(f"{__name__}.{module.name}")
    mark = jit.complete_mark()
    if mark is not None:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return {
        f"{module.rpartition('.')[2]}.{name}": jit.origin(module, name)
        for module, name in jit.KERNELS
    }
