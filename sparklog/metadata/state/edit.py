"""An edit: all changes of one commit, as plain values. `Image.apply` applies it.

    Edit                 one commit: topics by id, and changes of the whole log dir
      TopicEdit          one topic: its description, segments, partitions, receipts
      Lease              a claim on a piece of work
      FoldEdit           the runs that hold the folded image from now on

An edit is planned on an image, checked against it (`check`), written into an entry (`entry`), and
applied by every follower. Where it can, it holds absolute values: a partition's state, a topic's
description, the whole list of runs. Applying it needs no clock: an edit that forgets receipts has
the time ("last used before T").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from sparklog.errors import UsageError
from sparklog.metadata.state.cluster import Broker, ScramCredential, UserKey
from sparklog.metadata.state.producers import ProducerState
from sparklog.metadata.state.transactions import Added, TransactionalId
from sparklog.model import OffsetRange, SegmentEntry, SegmentKey, TopicDescription

FEATURE_LEVEL: Final = 1
"""The feature level that this release writes; it commits to no log dir of a higher one."""


class _Nothing(dict[Any, Any]):
    """An empty mapping, which all fields without a value share: an edit fills few of its fields."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment] # a default has to be hashable

    def __setitem__(self, *_: object) -> NoReturn:
        raise TypeError("the mapping that fields without a value share stays empty")


NOTHING: Final[Mapping[Any, Any]] = _Nothing()
"""No items."""

T = TypeVar("T")


def with_fields(kind: type[T], fields: dict[str, Any]) -> T:
    """Return a frozen dataclass without slots that has these fields; the rest have their defaults.

    The object keeps `fields` as its attributes. The class's own constructor would set them one by
    one, which takes as long as the rest of a follower's work on an edit. Nothing is checked, and
    `__post_init__` is not called.
    """
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", fields)
    return made


ALL_FILES_MS: Final = 2**63 - 1
"""The vacuum horizon of a deleted topic that vacuum erases: any of its files may be gone."""


class Stamp(NamedTuple):
    """The place of an entry in the log: its version, its id, and its time."""

    version: int
    entry_id: str
    timestamp_ms: int


NO_STAMP: Final = Stamp(-1, "", 0)
"""The stamp of an image before the first entry."""


class PartitionState(NamedTuple):
    """The numbers of a partition, which stay when its segments go. No field ever falls."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    leader_epoch: int = 0
    cleaner_offset: int = 0
    imported_end_offset: int = 0

    def grown(self, other: "PartitionState") -> "PartitionState":
        """Return the larger of each field."""
        return PartitionState(*map(max, self, other))

    def ending_at(self, offset: int) -> "PartitionState":
        """Return the numbers with another log end offset."""
        # As `_replace` does it, in a fifth of the time: every append needs it.
        return tuple.__new__(PartitionState, (self[0], offset, *self[2:]))


NEW_PARTITION: Final = PartitionState()


class LogVersion(NamedTuple):
    """A version of one incarnation of a log dir; a restored copy begins another incarnation."""

    log_id: str
    version: int


class OpenTransaction(NamedTuple):
    """A transaction without its end marker: its producer, and its first offset in the log."""

    producer_id: int
    first_offset: int


class EpochStart(NamedTuple):
    """A leader epoch and the offset of its first record (LeaderEpochFileCache's EpochEntry)."""

    epoch: int
    start_offset: int


class ReceiptKey(NamedTuple):
    """The identity of a write that lands once: an application, or a request's key.

    An application (`is_versioned`) counts its writes: Delta's txnAppId and txnVersion. A request's
    key is used once.
    """

    app_id: str
    is_versioned: bool = False


class Receipt(NamedTuple):
    """The answer to a committed write: the offsets per partition, and the topic's partition count.

    `version` is the application's highest, None for a request's key. `content_crc32c` is a checksum
    of the records, None if the writer gave none. `used_ms` is the time of the entry.
    """

    ranges: tuple[OffsetRange, ...]
    partition_count: int | None = None
    version: int | None = None
    content_crc32c: int | None = None
    used_ms: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim that saves work: until it expires, other owners leave the work to its owner."""

    name: str
    owner: str
    expires_ms: int


class RunFile(NamedTuple):
    """A run: its path below `__cluster_metadata`, size, checksum, rows, and versions.

    It holds the keys that entries `from_version` to `to_version` touched, as `to_version` left
    them. `crc32c` covers its footer, which has the checksums of all other bytes (`runs.file`).
    """

    path: str
    bytes: int
    crc32c: int
    rows: int
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class FoldEdit:
    """The fold from this entry on: `runs` hold the image as of `cover`, `history` past entries.

    Both lists are complete, oldest first. `based_on` is the cover of the previous fold.
    """

    cover: int
    based_on: int
    runs: tuple[RunFile, ...]
    history: tuple[RunFile, ...] = ()


NO_FOLD: Final = FoldEdit(-1, -1, ())
"""The fold of a log that was never folded: no runs."""


@dataclass(frozen=True, kw_only=True)
class TopicEdit:
    """The part of an edit that belongs to one topic.

    - `description` makes or alters the topic. With `deleted_ms` it deletes the topic; the same one
      without `deleted_ms` brings the topic back.
    - `segments` are new, with the log's offsets. They begin at the partition's log end offset (with
      `allow_gaps` also beyond it), or lie inside segments that the same edit removes.
    - `leader_epochs` are those that the edit was planned with.
    - `replace` swaps a live segment's row for one of the same key and offsets (a new index, say).
    - `remove` has the keys of live segments. The rows of slices of shared segments go at once. The
      others stay as rows of removed segments, for readers that planned with them. They count as
      removed at `removed_ms`; without it, at the time of the entry. `forget` has the keys of
      removed segments whose rows go.
    - `transactions` and `epochs` are all open transactions and leader epochs of a partition.
    - `receipts` are new. Receipts of requests' keys last used before `forget_receipts_before_ms`
      go.
    - `producers` are the new states of a partition's producers; states last used before
      `forget_producers_before_ms` go, in all partitions.
    """

    description: TopicDescription | None = None
    segments: Sequence[SegmentEntry] = ()
    partitions: Mapping[int, PartitionState] = NOTHING
    transactions: Mapping[int, tuple[OpenTransaction, ...]] = NOTHING
    epochs: Mapping[int, tuple[EpochStart, ...]] = NOTHING
    replace: Sequence[SegmentEntry] = ()
    remove: Sequence[SegmentKey] = ()
    removed_ms: int | None = None
    forget: Sequence[SegmentKey] = ()
    forget_receipts_before_ms: int | None = None
    vacuum_horizon_ms: int | None = None
    leader_epochs: Mapping[int, int] = NOTHING
    allow_gaps: bool = False
    receipts: Mapping[ReceiptKey, Receipt] = NOTHING
    producers: Mapping[int, tuple[ProducerState, ...]] = NOTHING
    forget_producers_before_ms: int | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise UsageError for an edit that no image allows."""
        if self.remove or self.replace or len(self.segments) > 1:
            self._check_keys()

    def _check_keys(self) -> None:
        touched, added = self.touched, {entry.key for entry in self.segments}
        if not touched.isdisjoint(added):
            raise UsageError("an edit adds a segment that it also removes or replaces")
        if len(touched) != len(self.remove) + len(self.replace):
            raise UsageError("an edit removes or replaces a segment twice")
        if len(added) != len(self.segments):
            raise UsageError("an edit adds a segment twice")

    @property
    def touched(self) -> frozenset[SegmentKey]:
        """The keys of the live segments that the edit removes or replaces."""
        return frozenset((*self.remove, *(entry.key for entry in self.replace)))

    @property
    def only_appends(self) -> bool:
        """Whether the edit only appends segments, and sets producers and open transactions.

        Produces and the ends of transactions do.
        """
        return not (
            self.remove
            or self.receipts
            or self.partitions
            or self.replace
            or self.epochs
            or self.forget
            or self.forget_receipts_before_ms is not None
            or self.forget_producers_before_ms is not None
            or self.vacuum_horizon_ms is not None
        )

    @property
    def is_empty(self) -> bool:
        """Whether the edit changes nothing."""
        return not self.segments and not any(
            (
                self.description,
                self.partitions,
                self.transactions,
                self.epochs,
                self.replace,
                self.remove,
                self.forget,
                self.receipts,
                self.producers,
                self.forget_receipts_before_ms is not None,
                self.forget_producers_before_ms is not None,
                self.vacuum_horizon_ms is not None,
            )
        )

    def with_receipt(self, key: ReceiptKey, receipt: Receipt) -> "TopicEdit":
        """Return the edit with one more receipt."""
        return replace(self, receipts={**self.receipts, key: receipt})


@dataclass(frozen=True, kw_only=True)
class Edit:
    """The changes of one commit. `topics` are edits by topic id.

    - `leases` sets leases; None gives one up.
    - `forget_topics` are ids of deleted topics whose files are gone.
    - `horizon_ms` is the log dir's: files made before it may be gone.
    - `forget_shared` are shared segments without slices, whose files are gone.
    - Producer ids below `next_producer_id` are taken.
    - `brokers`, `users` and `transactional_ids` are set, or removed by None; `replaces` names the
      incarnation that held a node id before.
    - `added_to_transactions` joins the open transactions of ids, after `transactional_ids` are set.
      Without the transaction it cannot be applied: a cut has no ids, so `cut_at` leaves it out.
    - `ended_log` is the incarnation of the log dir that ended with the entry before.
    """

    operation: str
    parameters: Mapping[str, str] = NOTHING
    topics: Mapping[str, TopicEdit] = NOTHING
    leases: Mapping[str, Lease | None] = NOTHING
    horizon_ms: int | None = None
    forget_topics: Sequence[str] = ()
    forget_shared: Sequence[str] = ()
    level: int | None = None
    fold: FoldEdit | None = None
    next_producer_id: int | None = None
    brokers: Mapping[int, Broker | None] = NOTHING
    replaces: Mapping[int, str] = NOTHING
    users: Mapping[UserKey, ScramCredential | None] = NOTHING
    transactional_ids: Mapping[str, TransactionalId | None] = NOTHING
    added_to_transactions: Mapping[str, Added] = NOTHING
    ended_log: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the edit changes nothing."""
        return (
            all(one.is_empty for one in self.topics.values())
            and not self.leases
            and not self.forget_topics
            and not self.forget_shared
            and self.horizon_ms is None
            and self.level is None
            and self.fold is None
            and self.next_producer_id is None
            and not self.brokers
            and not self.users
            and not self.transactional_ids
            and not self.added_to_transactions
            and self.ended_log is None
        )

    def without_credentials(self) -> "Edit":
        """Return the edit as the history keeps it, without the credentials of users."""
        return replace(self, users=dict.fromkeys(self.users)) if self.users else self


@dataclass(frozen=True, slots=True)
class Done:
    """The answer of a plan that has nothing to commit."""
