"""Memory of a service's process: it loads only what it uses, and gives back what is free."""

import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Final

UNUSED: Final = ("hypothesis", "pandas")
"""Packages that others import if they are installed: kio the first, for tests, and pyarrow the
second, with the first array that it makes of Python objects. Both take 40 MB and a second."""
M_ARENA_MAX: Final = -8
ARENAS: Final = 2
"""Heaps of the C library. It has eight a core otherwise, and memory that one thread has freed in
its heap is of no use to the others."""
COMPILER: Final = "libllvmlite"
MADV_DONTNEED: Final = 4
_FIELDS: Final = 6
"""Of a line of /proc/self/maps that names a file."""


class _Absent:
    """An import hook that finds no package of UNUSED.

    None in `sys.modules`, which stops Python's own imports, is a module to those that Cython makes.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Raise ModuleNotFoundError for a package of UNUSED; leave others to the hooks behind."""
        if name in UNUSED:
            raise ModuleNotFoundError(f"a service does without {name}", name=name)


def leave_out_unused() -> None:
    """Let no package import UNUSED, as if they were not installed. What is loaded already stays."""
    if _Absent not in sys.meta_path:
        sys.meta_path.insert(0, _Absent)


def spare_arrow() -> None:
    """Let pyarrow use the C library's heaps; called before anything imports it.

    Its own allocator keeps 30 MB more where many threads read.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def spare_memory() -> None:
    """Keep the process small; called once, before the service starts its threads."""
    leave_out_unused()
    _call("mallopt", M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Give free memory back to the system, which the C library keeps otherwise."""
    _call("malloc_trim", 0)


def give_back_code() -> None:
    """Give the code of LLVM back, which has loaded the kernels, and is not used any more.

    These 50 MB are pages of its file, which the system reads again if they are used after all.
    """
    for start, end in _code_of(COMPILER):
        _call("madvise", ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def _code_of(library: str) -> Iterator[tuple[int, int]]:
    """Yield where a library's code is in memory: only what may be executed, and not written."""
    try:
        with open("/proc/self/maps", errors="surrogateescape") as maps:
            lines = [line.split(maxsplit=5) for line in maps]
    except OSError:  # another system
        return
    for addresses, permissions, *_, path in (line for line in lines if len(line) == _FIELDS):
        if permissions == "r-xp" and library in path.rpartition("/")[2]:
            start, end = (int(one, 16) for one in addresses.split("-"))
            yield start, end


def _call(name: str, *numbers: object) -> None:
    """Call a function of the C library; nothing happens where it has no such function."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*numbers)
