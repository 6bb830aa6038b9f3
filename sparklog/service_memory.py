"""Memory of a service's process: it loads only what it uses, and gives back what is free."""

import ctypes
import sys
from typing import Final

UNUSED: Final = ("hypothesis", "pandas")
"""Packages that others import if they are installed: kio the first, for tests, and pyarrow the
second, with the first array that it makes of Python objects. Both take 40 MB and a second."""
M_ARENA_MAX: Final = -8
ARENAS: Final = 2
"""Heaps of the C library. It has eight a core otherwise, and memory that one thread has freed in
its heap is of no use to the others."""


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


def spare_memory() -> None:
    """Keep the process small; called once, before the service starts its threads."""
    leave_out_unused()
    _call("mallopt", M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Give free memory back to the system, which the C library keeps otherwise."""
    _call("malloc_trim", 0)


def _call(name: str, *numbers: int) -> None:
    """Call a function of the C library; nothing happens where it has no such function."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*numbers)
