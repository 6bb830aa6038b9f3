"""Batches of clients that wait for their commit, one group after another.

    request ──▶ waiting ──▶ group ──▶ one shared segment, one entry ──▶ answers
                             ▲ the requests that came during the previous commit

One group is committed at a time. The first request after an idle time is committed at once. After a
commit the next group waits for

    as many requests as the last group had
    one more request of each other client whose request came during the commit

but no longer than the last commit took, and no longer than linger.ms. So clients that send their
next request after an answer form one group, instead of two groups that take turns. If a group has
waited in vain, clients do not send again, and the next group does not wait for the other clients. A
request that a client of the group has sent ahead is not waited for either: that client sends no
further request before it has more records.

Records of consumer groups, above all offset commits, join a batch that is made only when its group
begins. If many of them come, a group that has nothing else waits up to GROWING_LINGER_S, so that
more of them share a batch, a segment and an entry. On an object store a commit is expensive, so
every group waits longer (REMOTE_LINGER_S to REMOTE_LINGER_MAX_S).
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sparklog.group_commit.append_slots import Append, AppendCounts, Appended, Outcome, Slot
from sparklog.group_commit.append_thread import AppendThread
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.group_commit.companions import Companions
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import Image

__all__ = ["Append", "AppendCommit", "AppendLimits", "Appended"]

MIB: Final = 1024 * 1024
REMOTE_LINGER_S: Final = 0.1
"""How long a group waits on an object store; or twice the time of the last commit, if longer."""
REMOTE_LINGER_MAX_S: Final = 1.0
"""The longest of these waits: a commit may take minutes if the store is out of reach."""
MANY_REQUESTS: Final = 8
"""This many requests in a group show that more are about to come."""
GROWING_LINGER_S: Final = 0.02
"""How long a group of requests that join batches waits on a local disk, if it waits for
MANY_REQUESTS or more. With 2,100 offset commits a second this saves CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AppendLimits:
    """When a group is committed, how, and how much may wait for it."""

    linger_ms: int = 5
    """The longest that a group waits after the group before it, on a local disk."""
    max_pending_bytes: int = 64 * MIB
    """The most bytes that may wait for their commit; with more, `AppendCommit.room` waits."""
    flush: bool = True
    """Whether segments are synced before the commit; the entry is always synced."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """One request that waits for its commit."""

    slots: list[Slot]
    size_bytes: int
    answer: asyncio.Future[list[Outcome]]
    client: Hashable = None
    """The client that has sent it; None for a client that has no other request."""
    make: Callable[[], Append] | None = None
    """Makes the batch when its group is taken; before that `slots` is empty."""
    companion: Any = None
    """The companion (`companions`), for a request without slots."""
    came_s: float = 0.0
    """When a batch that may grow began to wait."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Those of the slots, once they are written."""


class AppendCommit:
    """The groups of one instance. For one event loop."""

    def __init__(
        self,
        catalog: Catalog,
        limits: AppendLimits,
        together: Callable[[Sequence[Any]], Companions],
    ) -> None:
        """`together` makes a group's Companions of the objects that `join` has taken."""
        self._together = together
        self.counts = AppendCounts()
        self.on_commit: Callable[[Image], None] | None = None
        """Called on the loop after each commit that landed, with its image, before its answers."""
        self._limits = limits
        self._is_local = catalog.files.is_local
        self._writer = AppendWriter(catalog, self.counts, flush=limits.flush, grows=True)
        self._thread = AppendThread("append")
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        """The bytes of all requests that were not answered yet."""
        self._has_room = asyncio.Event()
        self._wanted = 1
        """How many requests the next group waits for; with as many it is complete."""
        self._grown = 0
        """How many requests have joined a waiting one (`grew`)."""
        self._lingers: asyncio.TimerHandle | None = None
        """The end of the linger; None if no group lingers."""
        self._has_lingered = False
        """Whether the group that waits has lingered already."""
        self._has_waited_in_vain = False
        """True if the last group waited in vain: its commit began before the group was complete."""
        self._is_ending = False
        self._waits_since_s = self._began_s = self._answered_s = 0.0
        """When the last group began to wait, was begun, and was answered."""
        self._commit_s = 0.0
        self._is_idle = asyncio.Event()
        """Whether no request waits, and none is committed."""
        self._is_idle.set()

    def append(
        self, slots: list[Slot], *, client: Hashable = None
    ) -> asyncio.Future[list[Outcome]]:
        """Take a request's batches; return a future with an outcome for each, in their order.

        Name the `client` if it sends requests before the earlier ones are answered. Batches of a
        partition are appended in the order of the calls. A request is committed even if its client
        has gone.
        """
        size = sum(len(one.append.batch) for one in slots)
        self._bytes += size
        answer = asyncio.get_running_loop().create_future()
        return self._wait(_Waiting(slots, size, answer, client))

    def append_when_taken(self, make: Callable[[], Append]) -> asyncio.Future[list[Outcome]]:
        """Take a request whose batch may grow until its group is taken; then `make` returns it.

        Call `grew` for each further request that joins the batch. Returns as `append`.
        """
        loop = asyncio.get_running_loop()
        return self._wait(_Waiting([], 0, loop.create_future(), make=make, came_s=loop.time()))

    def join(self, companion: object) -> asyncio.Future[list[Outcome]]:
        """Take a companion for the next group; return a future that is done when it is settled.

        The future's list of outcomes is empty. A companion lies behind the batches of its group.
        """
        answer = asyncio.get_running_loop().create_future()
        return self._wait(_Waiting([], 0, answer, companion=companion))

    def grew(self) -> None:
        """Note that one more request has joined a batch that is not made yet."""
        self._grown += 1
        if self._waits_no_longer():
            self._linger_no_longer()

    def _wait(self, waiting: _Waiting) -> asyncio.Future[list[Outcome]]:
        self._waiting.append(waiting)
        if self._is_idle.is_set():
            self._is_idle.clear()
            asyncio.get_running_loop().call_soon(self._next)
        elif self._is_first_of_others() or self._waits_no_longer():
            self._linger_no_longer()
        return waiting.answer

    def _is_first_of_others(self) -> bool:
        """Whether the last request joins no batch, but the one before it does.

        Then the group waits less long (`_begins_s`).
        """
        *before, last = self._waiting[-2:]
        return last.make is None and any(one.make is not None for one in before)

    @property
    def has_room(self) -> bool:
        """Whether at most max_pending_bytes wait for their commit."""
        return self._bytes <= self._limits.max_pending_bytes

    async def room(self) -> None:
        """Wait while more than max_pending_bytes wait for their commit."""
        while not self.has_room:
            self._has_room.clear()
            await self._has_room.wait()

    async def close(self) -> None:
        """Commit all waiting requests without delay; return when they are answered."""
        self._is_ending = True
        self._linger_no_longer()
        await self._is_idle.wait()
        self._thread.close()
        self._writer.close()

    def _next(self) -> None:
        """Take the waiting requests as the next group, now or when it has lingered."""
        self._has_lingered = False
        self._waits_since_s = asyncio.get_running_loop().time()
        self._begin_or_linger()

    def _taken(self) -> Sequence[_Waiting]:
        """Take all waiting requests as a group; make the batches that could still grow."""
        group, self._waiting = self._waiting, []
        self._wanted, self._grown = len(group) + self._grown, 0
        return [one for one in group if one.make is None or self._is_made(one, one.make)]

    def _is_made(self, one: _Waiting, make: Callable[[], Append]) -> bool:
        """Make the batch of a request; if that is impossible, the request gets the error."""
        try:
            append = make()
        except Exception as error:  # noqa: BLE001 - a bug costs this request, and no other
            self._settle(one, error)
            return False
        one.slots, one.size_bytes = [Slot(append)], len(append.batch)
        self._bytes += one.size_bytes
        return True

    def _begin_or_linger(self) -> None:
        """Commit the group if it is complete, or has waited long enough; otherwise look again."""
        loop = asyncio.get_running_loop()
        self._lingers, now_s = None, loop.time()
        is_complete = self._waits_no_longer()
        left_s = 0.0 if is_complete else self._begins_s() - now_s
        if left_s > 0:
            self._has_lingered = True
            self._lingers = loop.call_later(left_s, self._begin_or_linger)
            return
        self._has_waited_in_vain = self._has_lingered and not is_complete
        self._began_s = now_s
        self._commit(self._taken())

    def _linger_no_longer(self) -> None:
        """Let the loop look again, soon, at the group that lingers."""
        if self._lingers is not None:
            self._lingers.cancel()
            self._lingers = None
            asyncio.get_running_loop().call_soon(self._begin_or_linger)

    def _begins_s(self) -> float:
        """Return when the group begins even if it is incomplete."""
        if not self._is_local:
            linger_s = min(max(REMOTE_LINGER_S, 2 * self._commit_s), REMOTE_LINGER_MAX_S)
            return self._waits_since_s + linger_s
        if self._wanted >= MANY_REQUESTS and all(one.make is not None for one in self._waiting):
            return self._waiting[0].came_s + GROWING_LINGER_S
        return self._answered_s + min(self._limits.linger_ms / 1000, self._commit_s)

    def _waits_no_longer(self) -> bool:
        is_complete = self._is_local and len(self._waiting) + self._grown >= self._wanted
        return is_complete or self._is_ending or self._bytes >= self._limits.max_pending_bytes

    def _others_than(self, group: Sequence[_Waiting]) -> int:
        """Return how many clients have a waiting request, but none in the group."""
        if not self._waiting:
            return 0
        others = {one.client for one in self._waiting} - {one.client for one in group}
        unnamed = sum(one.client is None for one in self._waiting)
        return len(others - {None}) + unnamed + self._grown

    def _commit(self, group: Sequence[_Waiting]) -> None:
        """Write a group on the thread; then `_landed` answers its requests."""
        joined = [one.companion for one in group if one.companion is not None]
        companions = self._together(joined) if joined else None
        loop = asyncio.get_running_loop()
        self._thread.do(partial(self._write, loop, group, companions))

    def _write(
        self,
        loop: asyncio.AbstractEventLoop,
        group: Sequence[_Waiting],
        companions: Companions | None,
    ) -> None:
        """Write a group, and tell the loop. For the thread.

        A request may have a million slots: they are gone through, and freed, here.
        """
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            try:
                image = self._writer.write(
                    [slot for one in group for slot in one.slots], companions
                )
                for one in group:
                    one.outcomes = [slot.outcome for slot in one.slots if slot.outcome is not None]
                    one.slots = []
            except BaseException as error:  # noqa: BLE001 - raised in the waiting requests
                loop.call_soon_threadsafe(self._landed, group, None, error)
            else:
                loop.call_soon_threadsafe(self._landed, group, image, None)

    def _landed(
        self, group: Sequence[_Waiting], image: Image | None, failure: BaseException | None
    ) -> None:
        """Answer the requests of a group, and go on with the next one."""
        loop = asyncio.get_running_loop()
        if not self._has_waited_in_vain:
            self._wanted += self._others_than(group)
        self._answered_s = loop.time()
        self._commit_s = self._answered_s - self._began_s
        if image is not None and self.on_commit is not None:
            loop.call_soon(self.on_commit, image)  # before the answers, which are called soon, too
        for one in group:
            self._settle(one, failure)
        if self._waiting:
            self._next()
        else:
            self._is_idle.set()

    def _settle(self, one: _Waiting, failure: BaseException | None) -> None:
        self._bytes -= one.size_bytes
        if self._bytes <= self._limits.max_pending_bytes:
            self._has_room.set()
        if one.answer.done():
            return  # nobody waits for it any more
        if failure is not None:
            one.answer.set_exception(failure)
            one.answer.exception()  # marked as retrieved, even if nobody asks
        else:
            one.answer.set_result(one.outcomes)
