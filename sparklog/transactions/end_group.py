"""Ends of transactions that arrive together: one shared segment and one entry for all of them.

    Ends.end(decide)   waits while a group is committed; then one waiting thread commits all ends
                       that wait
    EndGroup           ends that are committed with a group of batches (`Companions`), or alone

The gateway commits ends together with appended batches (`group_commit.appends`); other callers use
`Ends`. An end that fails does not stop the others.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from threading import Lock
from typing import NamedTuple

from sparklog.errors import CommitConflictError, ErrorCode, LateWriterError, SparklogError
from sparklog.group_commit.append_writer import ROUNDS_MAX, AppendWriter
from sparklog.group_commit.companions import Places
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import Committed
from sparklog.metadata.plans.transactions import NOT_AN_ID, Ending
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image
from sparklog.transactions.ending import (
    Appends,
    Decision,
    StaleEndError,
    appends_of,
    edit_of,
    pieces_of,
    topics_of,
)


class End:
    """An end that waits: the function that decides on it, and its outcome."""

    def __init__(self, decide: Decision) -> None:
        self.decide = decide
        self.is_settled = False
        self._outcome: Ending | BaseException | None = None

    def settle(self, outcome: Ending | BaseException | None) -> None:
        """Set the outcome: an end, None for nothing to end, or an error."""
        self.is_settled, self._outcome = True, outcome

    def answer(self) -> Ending | None:
        """Return the outcome, or raise it if it is an error."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


class _Begun(NamedTuple):
    """An end at the beginning of a round, and the ids of the topics that it writes to."""

    end: End
    ending: Ending
    topics: frozenset[str]


class EndGroup:
    """Ends that are written and committed together (`Companions`)."""

    def __init__(self, ends: Sequence[End]) -> None:
        self._ends = ends
        self._now_ms = 0
        self._begun: list[_Begun] = []
        self._appends: tuple[Image, list[Ending], Appends] | None = None
        """An image, ends, and what they append to it."""
        self._decided: list[Ending | SparklogError | None] = []
        """The decisions on the waiting ends, in the newest plan."""

    @property
    def _waiting(self) -> list[End]:
        return [one for one in self._ends if not one.is_settled]

    @property
    def _topics(self) -> frozenset[str]:
        return frozenset[str]().union(*(one.topics for one in self._begun))

    @property
    def are_settled(self) -> bool:
        """Whether each end has its outcome."""
        return all(one.is_settled for one in self._ends)

    def begin(self, image: Image) -> Collection[str]:
        """Decide on each end by itself; settle refused ends, return the topics of the others."""
        self._begun = []
        for one in self._waiting:
            found = _decision(one, image)
            if isinstance(found, Ending):
                self._begun.append(_Begun(one, found, frozenset(topics_of(image, found))))
            elif found is not None:
                one.settle(found)
        return self._topics

    def lose(self, errors: Mapping[str, SparklogError]) -> None:
        """Fail the ends with a partition in topics that cannot be read; `errors` by topic id."""
        for one in self._begun:
            for topic_id in sorted(one.topics & errors.keys()):
                one.end.settle(copy(errors[topic_id]))
        self._begun = [one for one in self._begun if not one.end.is_settled]

    def pieces(self, image: Image, now_ms: int) -> Collection[bytes]:
        """Return the markers and offsets to write."""
        self._now_ms, self._appends = image.not_before(now_ms), None
        endings = [one.ending for one in self._begun]
        return sorted(pieces_of(self._appends_on(image, endings)))

    def plan(self, image: Image, places: Places) -> Edit | Done:
        """Decide again, and return the edit of all ends.

        Raises StaleEndError if the ends have to be written again.
        """
        self._decided = _decided(self._waiting, image)
        endings = [one for one in self._decided if isinstance(one, Ending)]
        if not self._topics.issuperset(one for end in endings for one in topics_of(image, end)):
            raise StaleEndError
        appends = self._appends_on(image, endings)
        return edit_of(image, endings, appends, places, self._now_ms)

    def _appends_on(self, image: Image, endings: list[Ending]) -> Appends:
        """Return what ends append: what `pieces` has found, while the image is the same."""
        known = self._appends
        if known is None or image is not known[0] or endings != known[1]:
            known = self._appends = image, endings, appends_of(image, endings, self._now_ms)
        return known[2]

    def land(self, outcome: Committed | BaseException) -> None:
        """Settle all ends, unless they have to be written again."""
        if isinstance(outcome, StaleEndError | LateWriterError):
            return
        if isinstance(outcome, BaseException):
            self.fail(outcome)
            return
        for one, found in zip(self._waiting, self._decided, strict=True):
            one.settle(found)

    def fail(self, error: BaseException) -> None:
        """Give each end without an outcome its own copy of an error."""
        for one in self._waiting:
            one.settle(copy(error))

    def give_up(self) -> None:
        """Fail the ends without an outcome: they were written too often."""
        self.fail(
            CommitConflictError(
                f"the end of a transaction kept changing, {ROUNDS_MAX} times in a row",
                code=ErrorCode.CONCURRENT_TRANSACTIONS,
            )
        )


def _decision(end: End, image: Image) -> Ending | SparklogError | None:
    try:
        return end.decide(image)
    except SparklogError as error:
        return copy(error)  # without its frames: they hold the end, and so the outcome of the end


def _decided(ends: Sequence[End], image: Image) -> list[Ending | SparklogError | None]:
    """Return the decision on each end, or its error.

    Each decision sees the transactional ids as the earlier ends leave them.
    """
    decisions: list[Ending | SparklogError | None] = []
    ended: Ending | None = None
    for one in ends:
        if ended is not None:
            image = image.with_ids({ended.after.transactional_id: ended.after}, ended.next_id)
        found = _decision(one, image)
        ended = found if isinstance(found, Ending) and _has_id(found) else None
        decisions.append(found)
    return decisions


def _has_id(ending: Ending) -> bool:
    return ending.after.transactional_id != NOT_AN_ID


class Ends:
    """The ends of one process. For any number of threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._writer = AppendWriter(catalog)
        self._leading = Lock()
        """Held by the thread that commits the waiting ends."""
        self._queueing = Lock()
        self._queue: list[End] = []

    def end(self, decide: Decision) -> Ending | None:
        """End a transaction, durably; return its end, or None if `decide` returns None.

        Raises the errors of `decide`, CommitConflictError (CONCURRENT_TRANSACTIONS) if the bytes to
        write have changed too often because of other commits, and as `MetadataLog.commit`.
        """
        own = End(decide)
        self.settle(own)
        return own.answer()

    def settle(self, end: End) -> None:
        """Commit an end, durably."""
        with self._queueing:
            self._queue.append(end)
        with self._leading:
            if not end.is_settled:
                self._lead()

    def _lead(self) -> None:
        """End all waiting transactions; each end gets its outcome."""
        with self._queueing:
            ends, self._queue = self._queue, []
        group = EndGroup(ends)
        try:
            self._writer.write((), group)
        except BaseException as error:
            group.fail(error)
            raise
