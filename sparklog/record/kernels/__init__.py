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

MODULES = ("scan", "murmur2", "encode", "decode")


def warm_up() -> dict[str, list[str]]:
    """Loads every kernel, compiling those that are not in the cache; names them by module."""
    prefix = __name__
    jit = import_module(f"{prefix}.jit")
    for module in MODULES:
        import_module(f"{prefix}.{module}")
    return {
        module: [name for origin, name in jit.KERNELS if origin == f"{prefix}.{module}"]
        for module in MODULES
    }
