"""Unlinks files in many tasks. A file that cannot be unlinked is reported; the others go on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sparklog.errors import SparklogError, StorageError
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.storage.files import Files, FileStat

LOCAL_CHUNK: Final = 100_000
"""How many files of a local log dir one task unlinks; it takes some seconds. If one chunk is
enough, this process unlinks it, without Spark."""
REMOTE_CHUNK: Final = 1000
"""How many objects of a store one task deletes; it takes some seconds."""


@dataclass(slots=True)
class Sum:
    """The number of some files, the sum of their bytes, and the path of the first."""

    count: int = 0
    bytes: int = 0
    example: str | None = None

    def add(self, file: FileStat) -> None:
        """Count one more file."""
        self.count += 1
        self.bytes += file.bytes
        self.example = self.example or file.path

    def as_row(self, what: str) -> dict[str, Any]:
        """Return the sum as a row of the plan."""
        row = {"partition": None, "what": what, "count": self.count}
        return {**row, "bytes": self.bytes, "example": self.example}


def delete_files(context: JobContext, paths: Sequence[str], what: str) -> dict[str, str]:
    """Unlink files; return the paths that could not be unlinked, each with the reason.

    A file that is already gone counts as unlinked. `what` is the title of a progress bar.
    """
    size = LOCAL_CHUNK if context.files.is_local else REMOTE_CHUNK
    chunks = [paths[start : start + size] for start in range(0, len(paths), size)]
    fleet = context.fleet if len(chunks) > 1 else LocalFleet()
    failed: dict[str, str] = {}
    answers = fleet.map(partial(_delete, context.files), chunks, what)
    for chunk, answer in zip(chunks, answers, strict=True):
        if isinstance(answer, SparklogError):
            failed.update(dict.fromkeys(chunk, str(answer)))
        else:
            failed.update(answer)
    return failed


def _delete(files: Files, paths: Sequence[str]) -> dict[str, str]:
    try:
        files.delete_many(paths)
    except StorageError:
        return _delete_singly(files, paths)
    return {}


def _delete_singly(files: Files, paths: Sequence[str]) -> dict[str, str]:
    """Unlink the files one by one, to tell which cannot be."""
    failed = {}
    for path in paths:
        try:
            files.delete(path)
        except StorageError as error:
            failed[path] = str(error)
    return failed


def problems_of(failed: Mapping[str, str]) -> list[str]:
    """Return one line about files that could not be unlinked; [] if there are none."""
    if not failed:
        return []
    first = next(iter(failed.values()))
    return [f"{len(failed)} files could not be deleted, the first: {first}"]
