"""Watch: fetches wait here for records; one read of the metadata log serves all of them.

It looks for new entries every poll_interval_ms, and only while a fetch waits. This instance reports
its own commits at once (`saw`). In a local log dir a look that finds nothing takes microseconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import cached_property, partial
from typing import TypeAlias

from sparklog.errors import SparklogError
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.metadata.state.image import Image

Question: TypeAlias = Callable[[Image], bool]
"""Whether an image has the change that a fetch waits for."""


class _Waiter:
    """A fetch that waits for a change of topics (ids)."""

    __slots__ = ("future", "is_wanted", "timer", "topics")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        topics: Collection[str],
        is_wanted: Question,
        timeout_s: float,
    ) -> None:
        self.topics = topics
        self.is_wanted = is_wanted
        self.future: asyncio.Future[bool] = loop.create_future()
        self.timer = loop.call_later(timeout_s, self.end, False)

    def end(self, has_changed: bool) -> None:
        if not self.future.done():
            self.future.set_result(has_changed)


class Watch:
    """Wakes fetches when their topics have changed. For one event loop."""

    def __init__(
        self, topics: FollowedTopics, newest: Callable[[], Awaitable[Image]], interval_s: float
    ) -> None:
        """`newest` reads the newest image; it is called only if there is a new entry to read."""
        self._topics = topics
        self._newest = newest
        self._interval_s = interval_s
        self._waiting: dict[str, set[_Waiter]] = {}
        self._image: Image | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self.is_closed = False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def waiting(self) -> int:
        """The number of waiting fetches; each counts once for every topic it waits for."""
        return sum(map(len, self._waiting.values()))

    def wait(
        self, image: Image, topics: Collection[str], is_wanted: Question, timeout_s: float
    ) -> "asyncio.Future[bool]":
        """Return a future that is True when a later image has changed one of the topics as wanted.

        `topics` are ids. The future is False if there was none in the time, and True when the
        gateway ends. If an image cannot be read, all fetches get True: each reads again, and gets
        the error. Cancel the future to wait no longer.
        """
        seen = self._image
        is_late = seen is not None and seen.version > image.version and is_wanted(seen)
        if is_late or self.is_closed:
            done: asyncio.Future[bool] = self._loop.create_future()
            done.set_result(True)
            return done
        waiter = _Waiter(self._loop, frozenset(topics), is_wanted, timeout_s)
        for topic in waiter.topics:
            self._waiting.setdefault(topic, set()).add(waiter)
        waiter.future.add_done_callback(partial(self._forget, waiter))
        self._look_later()
        return waiter.future

    def saw(self, image: Image) -> None:
        """Wake the fetches whose topics this image changes. Own commits are reported here, too."""
        before, self._image = self._image, image
        if before is not None and before.version >= image.version:
            self._image = before
            return
        # Each waiter is asked once: a commit may change hundreds of the topics that it waits for.
        changed = dict.fromkeys(
            waiter
            for topic_id, waiting in self._waiting.items()
            if before is None or before.topic(topic_id) is not image.topic(topic_id)
            for waiter in waiting
        )
        for waiter in changed:
            if waiter.is_wanted(image):
                waiter.end(has_changed=True)

    def close(self) -> None:
        """Wake all fetches; from now on none waits, and there is no further look."""
        self.is_closed = True
        if self._next_look is not None:
            self._next_look.cancel()
        self._wake_all()

    def _forget(self, waiter: _Waiter, _: "asyncio.Future[bool]") -> None:
        waiter.timer.cancel()
        for topic in waiter.topics:
            waiting = self._waiting[topic]
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[topic]

    def _look_later(self) -> None:
        is_wanted = self._waiting and not self.is_closed
        if is_wanted and self._next_look is None and self._reading is None:
            self._next_look = self._loop.call_later(self._interval_s, self._look)

    def _look(self) -> None:
        self._next_look = None
        if self._topics.is_behind():
            self._reading = asyncio.ensure_future(self._read())
            return
        image = self._topics.last_seen
        if image is not None and image is not self._image:
            self._found(image)
        self._look_later()

    def _found(self, image: Image) -> None:
        """See the image of a look. A lower version is that of a repaired log, or of another one."""
        if self._image is not None and image.version < self._image.version:
            self._image = None
        self.saw(image)

    async def _read(self) -> None:
        try:
            self._found(await self._newest())
        except SparklogError:
            self._wake_all()
        finally:
            self._reading = None
            self._look_later()

    def _wake_all(self) -> None:
        for waiting in self._waiting.values():
            for waiter in waiting:
                waiter.end(has_changed=True)
