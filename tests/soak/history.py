"""What happened: the events that every process writes down, one JSON object a line, as it goes.

Times are nanoseconds of the machine's monotonic clock, which all processes share: what ended before
something else began came before it. A process that is killed leaves its last line torn or missing.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True)
class Begun:
    """A producer is about to write: the values of each partition, in their order."""

    producer: int
    version: int
    values: list[tuple[int, list[int]]]


@dataclass(frozen=True, slots=True)
class Answered:
    """A commit was acknowledged with these ranges (partition, start, end); None: not known."""

    producer: int
    version: int
    ranges: list[tuple[int, int, int]] | None
    replayed: bool
    began: int
    ended: int


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A producer wrote files and will never commit them."""

    producer: int
    version: int


@dataclass(frozen=True, slots=True)
class Read:
    """What stood at the offsets [start, end) of a partition; `offsets` None: start, start + 1, …"""

    partition: int
    start: int
    end: int
    values: list[int]
    offsets: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """One image: log start and end by partition, the topic's configs, and the records read.

    `is_whole` says that the reads go from where this reader's last ones ended to the log's end, in
    every partition.
    """

    reader: str
    began: int
    ended: int
    starts: list[int]
    ends: list[int]
    partitions: int
    revision: int
    reads: list[Read] = field(default_factory=list)
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class DeletionAsked:
    """An administrator is about to delete the records of a partition before an offset."""

    partition: int
    offset: int
    began: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """The deletion was acknowledged with this log start offset."""

    partition: int
    low: int
    ended: int


@dataclass(frozen=True, slots=True)
class Altered:
    """The topic was acknowledged to have so many partitions, and configs of this revision."""

    partitions: int
    revision: int
    ended: int


@dataclass(frozen=True, slots=True)
class Ran:
    """A job did something to a topic, or the log dir."""

    job: str
    topic: str
    counts: dict[str, int]
    began: int
    ended: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A process met an error that nobody should meet."""

    process: str
    error: str


Event = Begun | Answered | Abandoned | Polled | DeletionAsked | Deleted | Altered | Ran | Failed
Kind = TypeVar("Kind", bound=Event)

KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (Begun, Answered, Abandoned, Polled, DeletionAsked, Deleted, Altered, Ran, Failed)
}


class Journal:
    """One process's events, in a file that outlives it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.ftruncate(self._handle, _whole_bytes(path))

    def note(self, event: "DataclassInstance", *, durably: bool = False) -> None:
        """Append an event in one write; `durably` with fsync, as what was answered must be."""
        line = json.dumps({"kind": type(event).__name__, **asdict(event)})
        os.write(self._handle, line.encode() + b"\n")
        if durably:
            os.fsync(self._handle)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The events of a kind that earlier lives of this process wrote down."""
        return [event for event in self._events if isinstance(event, kind)]

    @cached_property
    def _events(self) -> list[Event]:
        return list(load(self._path))


def load(path: Path) -> Iterator[Event]:
    """The events of one file, without a line that is torn; none when there is no file."""
    return map(_event, lines(path))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of one file: the fields of each event, and its `kind`."""
    size = _whole_bytes(path)
    if size:
        yield from map(json.loads, path.read_bytes()[:size].splitlines())


def _whole_bytes(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0


def _event(fields: dict[str, Any]) -> Event:
    kind = KINDS[fields.pop("kind")]
    if kind is Polled:
        fields["reads"] = [Read(**read) for read in fields["reads"]]
    for name in ("values", "ranges"):
        if fields.get(name) is not None:
            fields[name] = [tuple(item) for item in fields[name]]
    return kind(**fields)
