"""Keeps a service's process small: leaves out unused packages, and gives free memory back."""

import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Final

UNUSED: Final = ("hypothesis", "pandas")
"""Packages that no service uses, but that others import if they are installed. kio imports
hypothesis, for tests. pyarrow imports pandas when it first makes an array of Python objects.
Together they take 70 MB and half a second of CPU."""
M_ARENA_MAX: Final = -8
ARENAS: Final = 2
"""The number of heaps of the C library. Its default is eight per core, and a thread cannot use the
memory that was freed in another heap."""
COMPILER: Final = "libllvmlite"
MADV_DONTNEED: Final = 4
_FIELDS: Final = 6
"""A line of /proc/self/maps has this many fields if it names a file."""


class _Absent:
    """An import hook that refuses the packages of UNUSED.

    None in `sys.modules` is not enough: it stops an import in Python code, but Cython's code uses
    the None as the module.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Raise ModuleNotFoundError for a package of UNUSED; leave others to the next hooks."""
        if name in UNUSED:
            raise ModuleNotFoundError(f"a service does without {name}", name=name)


def leave_out_unused() -> None:
    """Make imports of UNUSED fail, as if they were not installed. A loaded package stays."""
    if _Absent not in sys.meta_path:
        sys.meta_path.insert(0, _Absent)


def spare_arrow() -> None:
    """Let pyarrow use the C library's heaps. Call it before anything imports pyarrow.

    pyarrow's own allocator keeps 30 MB more if many threads read.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def spare_memory() -> None:
    """Keep the process small. Call it once, before the service starts its threads."""
    leave_out_unused()
    _call("mallopt", M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Give free memory back to the system; otherwise the C library keeps it."""
    _call("malloc_trim", 0)


def give_back_code() -> None:
    """Give the memory of LLVM's code back. Call it when the kernels are loaded.

    These 50 MB are pages of LLVM's file. The system reads them again if they are used after all.
    """
    for start, end in _code_of(COMPILER):
        _call("madvise", ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def _code_of(library: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of a library's code in memory: executable pages that are not writable."""
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
    """Call a function of the C library, if it has it (glibc)."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*numbers)
