"""Shares: the requests of one topic that go through a round together, and their outcomes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sparklog.errors import SparklogError, UsageError
from sparklog.group_commit.rows import Int32s, Int64s, Request
from sparklog.log_writer import WritePlan

TABLE_BYTES: Final = 64 * 1024 * 1024
"""Records of several topics become one Arrow table, up to this size; an array ends at 2 GiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """The answer to one request: partition and offset of each of its records.

    `now_ms` is the time of records that brought none, -1 when a replay no longer knows it.
    """

    partition: Int32s
    offset: Int64s
    now_ms: int
    replayed: bool = False


Outcome = Written | SparklogError


@dataclass(slots=True)
class Counts:
    """Groups of one instance since its start, in numbers that only grow."""

    records: int = 0
    """Records acknowledged; those of a replayed request were counted before."""
    commits: int = 0
    conflicts: int = 0
    """Times that a commit was planned again because another came first."""


@dataclass(eq=False, slots=True)
class Slot:
    """A request, and its outcome."""

    request: Request
    outcome: Outcome | None = None


@dataclass(eq=False, slots=True)
class Share:
    """Requests of one topic that share a round."""

    topic: str
    slots: list[Slot]
    plans: int = 0

    @property
    def open(self) -> list[Slot]:
        """The requests without an outcome."""
        return [slot for slot in self.slots if slot.outcome is None]

    def settle(self, outcome: Outcome) -> None:
        """Give all requests without an outcome this one."""
        for slot in self.open:
            slot.outcome = outcome

    def after_refusal(self, error: UsageError) -> list["Share"]:
        """Return the two halves of a refused share; a single request gets the error instead."""
        slots = self.open
        if len(slots) == 1:
            self.settle(error)
            return []
        half = len(slots) // 2
        return [Share(self.topic, part, self.plans) for part in (slots[:half], slots[half:])]


Planned = tuple[Share, WritePlan]


def together(plans: Sequence[Planned]) -> Iterator[list[Planned]]:
    """Return the shares in pieces whose records become one Arrow table each."""
    piece: list[Planned] = []
    size = 0
    for share, plan in plans:
        own = sum(slot.request.rows.size_bytes for slot in share.open)
        if piece and size + own > TABLE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append((share, plan))
        size += own
    if piece:
        yield piece
