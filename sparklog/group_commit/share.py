"""Shares: the requests of one topic that go through a round together, and their outcomes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sparklog.errors import SparklogError, UsageError
from sparklog.group_commit.rows import Int32s, Int64s, Request
from sparklog.log_writer import WritePlan
from sparklog.produce.partitioner import Partitioner

TABLE_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of several topics' records in one Arrow table: an array has 2 GiB at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """The answer to one request: partition (int32) and offset (int64) of each of its records.

    `now_ms` is the timestamp of records that came without one; with `is_append_time` that of all
    records. It is -1 in a replay, because the receipt does not have it.
    """

    partition: Int32s
    offset: Int64s
    now_ms: int
    replayed: bool = False
    is_append_time: bool = False


Outcome = Written | SparklogError


@dataclass(slots=True)
class Counts:
    """Counts of one instance since its start; they only grow."""

    records: int = 0
    """Records that were acknowledged; those of a replayed request count once."""
    commits: int = 0
    conflicts: int = 0
    """How often a commit was planned again because another was first."""


@dataclass(eq=False, slots=True)
class Slot:
    """A request, and its outcome."""

    request: Request
    outcome: Outcome | None = None


@dataclass(eq=False, slots=True)
class Share:
    """Requests of one topic that share a round; `plans` counts the tries that failed."""

    topic: str
    slots: list[Slot]
    plans: int = 0

    @property
    def open(self) -> list[Slot]:
        """The requests without an outcome."""
        return [slot for slot in self.slots if slot.outcome is None]

    def settle(self, outcome: Outcome) -> None:
        """Give this outcome to all requests that have none."""
        for slot in self.open:
            slot.outcome = outcome

    def after_refusal(self, error: UsageError) -> list["Share"]:
        """Return the halves of a refused share; [] for a single request, which gets the error."""
        slots = self.open
        if len(slots) == 1:
            self.settle(error)
            return []
        half = len(slots) // 2
        return [Share(self.topic, part, self.plans) for part in (slots[:half], slots[half:])]


class Planned(NamedTuple):
    """A planned share: its requests without an outcome, and the sum of their `Rows.size_bytes`."""

    share: Share
    plan: WritePlan
    partitioner: Partitioner
    slots: list[Slot]
    size_bytes: int


def together(plans: Sequence[Planned]) -> Iterator[list[Planned]]:
    """Yield the shares in lists; the records of a list fit into one Arrow table."""
    piece: list[Planned] = []
    size = 0
    for planned in plans:
        if piece and size + planned.size_bytes > TABLE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(planned)
        size += planned.size_bytes
    if piece:
        yield piece
