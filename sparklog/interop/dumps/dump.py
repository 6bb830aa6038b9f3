"""Prints files as kafka-dump-log.sh does; the suffix of a file decides how.

    .log .checkpoint   batches and records        .index .timeindex   entries, compared with the log
    .snapshot          producers                  .txnindex           aborted transactions

See kafka.tools.DumpLogSegments of Kafka 4.1.1.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sparklog.errors import CorruptionError, PassedOverError
from sparklog.interop.dumps.dump_batches import RecordText
from sparklog.interop.dumps.dump_index import IndexChecks, dump_index, dump_time_index
from sparklog.interop.dumps.dump_log import DumpedFile, Findings, Text, dump_log
from sparklog.interop.dumps.dump_state import dump_snapshot, dump_txn_index
from sparklog.log.names import TXN_INDEX_SUFFIX
from sparklog.storage.local import LocalFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """Options of a dump: the parts of records to print, the checks of indexes, and `max_bytes`."""

    text: RecordText
    checks: IndexChecks
    max_bytes: int


class Dump:
    """Dumps files one after another; `findings` collects their problems."""

    def __init__(self, options: DumpOptions) -> None:
        self._options = options
        self.findings = Findings()

    def file(self, given: str) -> Iterator[Text]:
        """Yield the printed text of a file.

        Where Kafka's tool ends with an exception, it raises CorruptionError naming the file, after
        it has yielded the text before. Where Kafka's tool prints a line and goes on with the next
        file, it raises PassedOverError. Raises MissingFileError.
        """
        path = _java_path(given)
        yield b"Dumping " + os.fsencode(path) + b"\n"
        suffix = path[path.rfind(".") :] if "." in os.path.basename(path) else ""
        options, checks = self._options, self._options.checks
        if suffix in (".log", ".checkpoint"):
            yield from dump_log(opened(path), options.text, self.findings, options.max_bytes)
        elif suffix == ".index":
            yield from dump_index(opened(path), _beside(path, "log"), checks, self.findings)
        elif suffix == ".timeindex":
            file, log, index = opened(path), _beside(path, "log"), _beside(path, "index")
            yield from dump_time_index(file, log, index, checks, self.findings)
        elif suffix == ".snapshot":
            yield from _snapshot(opened(path))
        elif suffix == TXN_INDEX_SUFFIX:
            yield from dump_txn_index(opened(path))
        else:
            raise PassedOverError(f"Ignoring unknown file {path}")


def _snapshot(file: DumpedFile) -> Iterator[Text]:
    try:
        yield from dump_snapshot(file)
    except CorruptionError as error:
        raise PassedOverError(str(error)) from None


def opened(path: str) -> DumpedFile:
    """Open a file of this machine, and map its bytes. Raises MissingFileError."""
    absolute = os.path.join(os.getcwd(), path)
    folder, name = os.path.split(absolute)
    return DumpedFile(path, absolute, LocalFiles(folder).view(name))


def _beside(path: str, suffix: str) -> DumpedFile:
    folder, name = os.path.split(path)
    return opened(os.path.join(folder, f"{name.split('.')[0]}.{suffix}"))


def _java_path(given: str) -> str:
    """Return a path as java.io.File writes it: no empty parts, no slash at the end."""
    path = re.sub("/+", "/", given)
    return path.rstrip("/") if len(path) > 1 else path
