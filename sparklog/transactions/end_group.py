"""Ends of transactions that arrive together: one shared segment and one entry for all of them.

    end(decide)      waits while a group is committed; then one waiting thread commits all that wait
    written          one shared segment with the markers and offsets of every end
    committed        one entry; the plans run one after another, each on the image that the plan
                     before it leaves

An end that fails does not stop the others. If the image of the commit asks for other bytes than
were written for an end, that end is written again, together with all others of this kind.
"""

from copy import copy
from threading import Lock
from typing import Final

from sparklog.errors import CommitConflictError, ErrorCode, SparklogError
from sparklog.log_writer import SharedSegment
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.edit import Done, Edit
from sparklog.metadata.image import Image
from sparklog.metadata.transaction_plans import Ending
from sparklog.transactions.ending import Decision, StaleEndError, edit_of, pieces_of, topics_of
from sparklog.transactions.pieces import Slot, written

TRIES: Final = 20
"""How often an end is written before it fails."""


class _End:
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


class _Plan:
    """The plan of one end.

    It is called on the commit's image, after the group's bytes were written.
    """

    def __init__(
        self,
        end: _End,
        places: dict[bytes, Slot],
        shared: SharedSegment,
        now_ms: int,
        ids: frozenset[str],
    ) -> None:
        self.end = end
        self.found: Ending | None = None
        self._places = places
        self._shared = shared
        self._now_ms = now_ms
        self._ids = ids

    def __call__(self, image: Image) -> Edit | Done:
        self.found = self.end.decide(image)
        if self.found is None:
            return Done()
        if not self._ids.issuperset(topics_of(image, self.found)):
            raise StaleEndError
        edit = edit_of(image, self.found, self._places, self._now_ms)
        self._shared.sync()  # the disk has synced it while the edit was made
        return edit


class Ends:
    """The ends of one process. For any number of threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.leading = Lock()
        """Held by the thread that commits the waiting ends."""
        self._queueing = Lock()
        self._queue: list[_End] = []

    @property
    def waiting(self) -> int:
        """How many ends wait for the group that is being committed."""
        return len(self._queue)

    def end(self, decide: Decision) -> Ending | None:
        """End a transaction, durably; return its end, or None if `decide` returns None.

        Raises the errors of `decide`, CommitConflictError (CONCURRENT_TRANSACTIONS) if other
        commits kept changing the bytes to write, and as `MetadataLog.commit`.
        """
        own = _End(decide)
        with self._queueing:
            self._queue.append(own)
        with self.leading:
            if not own.is_settled:
                self._lead()
        return own.answer()

    def _lead(self) -> None:
        """End all waiting transactions; each end gets its outcome."""
        with self._queueing:
            group, self._queue = self._queue, []
        try:
            for _ in range(TRIES):
                waiting = [one for one in group if not one.is_settled]
                if not waiting:
                    return
                self._round(waiting)
            raise CommitConflictError(
                f"the end of a transaction kept changing, {TRIES} times in a row",
                code=ErrorCode.CONCURRENT_TRANSACTIONS,
            )
        except BaseException as error:
            for one in [one for one in group if not one.is_settled]:
                one.settle(copy(error))
            if not isinstance(error, SparklogError):
                raise

    def _round(self, ends: list[_End]) -> None:
        """Write and commit ends. A stale end gets no outcome, and is written in the next round."""
        log = self._catalog.log
        image = log.image()
        decided = _decided(ends, image)
        if not decided:
            return
        ids = frozenset(one for _, ending in decided for one in topics_of(image, ending))
        image, now_ms = log.image(ids), self._catalog.clock.now_ms()
        wanted = {piece.data for _, ending in decided for piece in pieces_of(image, ending, now_ms)}
        places, shared = written(self._catalog, wanted)
        plans = [_Plan(end, places, shared, now_ms, ids) for end, _ in decided]
        for plan, outcome in zip(plans, log.commit_each(plans, ids), strict=True):
            if not isinstance(outcome, StaleEndError):
                plan.end.settle(outcome if isinstance(outcome, BaseException) else plan.found)


def _decided(ends: list[_End], image: Image) -> list[tuple[_End, Ending]]:
    """Return the ends that have a transaction to end; the others get their outcome."""
    decided: list[tuple[_End, Ending]] = []
    for one in ends:
        try:
            ending = one.decide(image)
        except SparklogError as error:
            one.settle(error)
            continue
        if ending is None:
            one.settle(None)
        else:
            decided.append((one, ending))
    return decided
