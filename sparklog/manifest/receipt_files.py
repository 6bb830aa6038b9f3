"""Which of a manifest's receipt files may know a key: so that hardly any is read.

    receipt file -> the XXH64 of the app_id of each of its rows, sorted       8 bytes a row, kept

Keys of requests are remembered for a day, at a hundred a second that is millions; nearly every
commit asks for keys that nobody has used. Equal hashes do not mean equal keys: who gets the rows of
a file looks at the keys themselves.
"""

from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class ReceiptFiles:
    """The hashes of the files that were asked about last; `read` gives the receipts of a file."""

    def __init__(self, read: Callable[[str], pa.Table]) -> None:
        self._read = read
        self._hashes: dict[str, Int64s] = {}

    def holding(self, names: Collection[str], keys: Collection[str]) -> list[pa.Table]:
        """Return all receipts of each of these files that may know one of the keys.

        Files that are asked about for the first time are read; the others are forgotten.
        """
        if not keys:
            return []
        hashes = self._hashes
        self._hashes = {name: hashes[name] if name in hashes else self._of(name) for name in names}
        wanted = _hashes(pa.array(keys, pa.string()))
        return [self._read(name) for name, known in self._hashes.items() if _any_in(wanted, known)]

    def _of(self, name: str) -> Int64s:
        return np.sort(_hashes(self._read(name).column("app_id").combine_chunks()))


def _hashes(keys: pa.StringArray) -> Int64s:
    # The kernels are loaded by those who have receipts to look for, not by every command.
    from sparklog.record.kernels.key_hash import hash_rows

    hashes = np.empty(len(keys), np.int64)
    _, ends, data = keys.buffers()
    bounds = np.frombuffer(ends, np.int32, len(keys) + 1, keys.offset * 4)
    hash_rows(bounds, np.frombuffer(data or b"", np.uint8), hashes)
    return hashes


def _any_in(wanted: Int64s, known: Int64s) -> bool:
    if not len(known):
        return False
    slots = known.searchsorted(wanted)
    return bool((known.take(slots, mode="clip") == wanted).any())
