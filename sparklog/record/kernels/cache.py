"""Numba's cache of compiled kernels: their name there, and whether it has all of them."""

import os
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Final


def sources_digest() -> str:
    """Return a digest of all sources that kernels are made of; they may be in a zip file."""
    folder = files("sparklog.record.kernels")
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(".py"))
    sources = [*(folder / name for name in names), files("sparklog.record") / "layout.py"]
    return blake2b(b"\0".join(path.read_bytes() for path in sources), digest_size=6).hexdigest()


SOURCES_DIGEST: Final = sources_digest()
COMPLETE: Final = f"complete.{SOURCES_DIGEST}"
"""The name of a file in the cache; it says that the cache has all kernels of these sources."""
BESIDE_SOURCES: Final = Path(__file__).parent / "__pycache__"
"""Where numba has its cache, if it may write there."""


def is_complete() -> bool:
    """Whether the cache has all kernels, without numba, which takes a quarter of a second to load.

    False also if the cache is neither in NUMBA_CACHE_DIR nor beside the sources: then only numba
    knows.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return any(Path(chosen).glob(f"*/{COMPLETE}"))
    return os.access(BESIDE_SOURCES, os.W_OK) and (BESIDE_SOURCES / COMPLETE).exists()
