"""Appends that wait for their commit, and their outcomes."""

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from sparklog.errors import SparklogError
from sparklog.garbage import without_frames

if TYPE_CHECKING:
    from sparklog.config import TopicConfig
    from sparklog.record.client_batch import ClientBatch

PRODUCE_VERSION: Final = 13
"""The version of Produce whose rules hold for batches of our own; the newest one."""


class Append(NamedTuple):
    """One partition's batch of a produce request, as the client sent it.

    With `leader_epoch` it is appended only while the partition has this epoch: a gateway that takes
    the partition over raises the epoch, and older appends are refused (FencedLeaderEpochError).
    With `end_offset` it is appended only if the log ends there, because its content depends on the
    records before it (UnexpectedAppendOffsetError).
    """

    topic_id: str
    partition: int
    batch: memoryview | bytes
    leader_epoch: int | None = None
    end_offset: int | None = None


class Appended(NamedTuple):
    """The outcome of a batch that was appended: its first offset, and Kafka's other fields.

    `log_append_time_ms` is -1 unless the topic has LogAppendTime.
    """

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


Outcome = Appended | SparklogError


class Ahead(NamedTuple):
    """A batch that was found sound before its group began, and the configs that it fits."""

    config: "TopicConfig"
    batch: "ClientBatch"


@dataclass(eq=False, slots=True)
class Slot:
    """An append, the request of Produce that brought it, and its outcome."""

    append: Append
    produce_version: int = PRODUCE_VERSION
    transactional_id: str | None = None
    """The transactional id that the request names."""
    outcome: Outcome | None = None
    ahead: Ahead | None = None
    """The batch, if it was checked before its group began (`append_ahead`)."""

    def checked_for(self, config: "TopicConfig") -> "ClientBatch | None":
        """Return the batch if it was checked ahead, and for these configs; else None."""
        return self.ahead.batch if self.ahead is not None and self.ahead.config is config else None

    def refuse(self, error: SparklogError) -> None:
        """Make an error the outcome, unless there is one.

        The slot gets a copy without a traceback. The frames of the error's traceback refer to the
        slot and its batch, and this cycle would keep both until Python's collector runs.
        """
        if self.outcome is None:
            self.outcome = copy(without_frames(error))


class Checked(NamedTuple):
    """A slot whose batch was found sound."""

    slot: Slot
    batch: "ClientBatch"


@dataclass(slots=True)
class AppendCounts:
    """The appends of one instance since its start; the numbers only grow."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    commits: int = 0
    conflicts: int = 0
    """How often a commit was planned again because another was first."""
