"""Runs whose rows are decoded once, for tests that read the same bytes many times."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sparklog.metadata.runs.file import RunReader
from sparklog.storage.memory import MemoryFiles


def remembering() -> type[RunReader]:
    """A reader that decodes groups of the same bytes once; it still reads them every time."""
    tables: dict[Any, pa.Table] = {}

    class Remembered(RunReader):
        def read(self, groups: Sequence[int]) -> pa.Table:
            assert isinstance(self._files, MemoryFiles)
            stored = self._files._stored.get(self.path)
            key = stored.data if stored else self.path, tuple(groups)
            if key not in tables:
                tables[key] = super().read(groups)
            else:
                for group in map(self.groups.__getitem__, groups):
                    self._files.view(self.path, group.end - group.start, group.start)
            return tables[key]

    return Remembered
