"""Numba's cache of compiled kernels: their name in it, whether it is complete, and filling it."""

import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Final

from sparklog.record.kernels import is_plain


def sources_digest() -> str:
    """Return a digest of all sources that kernels are made of; they may be in a zip file."""
    folder = files("sparklog.record.kernels")
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(".py"))
    sources = [*(folder / name for name in names), files("sparklog.record") / "layout.py"]
    return blake2b(b"\0".join(path.read_bytes() for path in sources), digest_size=6).hexdigest()


SOURCES_DIGEST: Final = sources_digest()
COMPLETE: Final = f"complete.{SOURCES_DIGEST}"
"""The name of a file in the cache; it says that the cache has all kernels of these sources."""
BESIDE_SOURCES: Final = Path(__file__).parent / "kernels" / "__pycache__"
"""Where numba has its cache, if it may write there."""
NO_CACHE: Final = (
    "numba finds no folder for compiled kernels: each process compiles them anew, which may take "
    "a minute, and its first requests wait; set NUMBA_CACHE_DIR to a directory for this user"
)
_logger: Final = logging.getLogger("sparklog.kernels")


def is_complete() -> bool:
    """Return True if the cache has all kernels. It does not load numba: that takes 0.25 s.

    It looks in NUMBA_CACHE_DIR, or beside the sources. Numba may have its cache elsewhere.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return any(Path(chosen).glob(f"*/{COMPLETE}"))
    return os.access(BESIDE_SOURCES, os.W_OK) and (BESIDE_SOURCES / COMPLETE).exists()


def compile_missing() -> None:
    """Compile the kernels in another process, if numba's cache lacks some.

    A service calls it before it listens: its first requests would wait for the compiler, and time
    out. Of services that start at once one compiles, and the others wait for it. Without a folder
    for a cache each process compiles for itself; a warning says so.
    """
    if is_plain() or is_complete():
        return
    mark = import_module("sparklog.record.kernels.jit").complete_mark()
    if mark is None:
        _logger.warning(NO_CACHE)
        return
    if mark.exists():
        return
    _logger.info("the kernels are compiled, once on this machine: this may take a minute")
    with _locked(mark.parent):
        if mark.exists():  # by now another service has compiled them
            return
        command = [sys.executable, "-P", "-m", "sparklog.record.kernels"]
        # A process group of its own: Ctrl-C ends the service alone, which kills the process.
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False, process_group=0)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, which is made, while the block runs; a killed process loses it.

    The block runs also where the folder cannot be made or locked.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
