"""Watch: fetches wait here for records; one read of the metadata log serves all of them.

It looks for new entries every poll_interval_ms, and only while a fetch waits. This instance reports
its own commits at once (`saw`). In a local log dir a look that finds nothing takes microseconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from sparklog.errors import SparklogError
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.metadata.state.image import Image

Question: TypeAlias = Callable[[Image], bool]
"""Whether an image has the change that a fetch waits for."""


class _Waiter:
    """A fetch that waits for a change of topics (ids)."""

    __slots__ = ("future", "is_wanted", "topics")

    def __init__(self, topics: Collection[str], is_wanted: Question) -> None:
        self.topics = topics
        self.is_wanted = is_wanted
        self.future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        self._end(has_changed=True)

    def expire(self) -> None:
        self._end(has_changed=False)

    def _end(self, *, has_changed: bool) -> None:
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

    @property
    def waiting(self) -> int:
        """The number of waiting fetches; each counts once for every topic it waits for."""
        return sum(map(len, self._waiting.values()))

    async def wait(
        self, image: Image, topics: Collection[str], is_wanted: Question, timeout_s: float
    ) -> bool:
        """Return True when an image after `image` has changed a topic (of these ids) as wanted.

        Returns False if there was none in the time. Returns True at once when the gateway ends. If
        an image cannot be read, all fetches get True: each reads again, and gets the error.
        """
        seen = self._image
        is_late = seen is not None and seen.version > image.version and is_wanted(seen)
        if is_late or self.is_closed:
            return True
        waiter = _Waiter(frozenset(topics), is_wanted)
        timer = asyncio.get_running_loop().call_later(timeout_s, waiter.expire)
        for topic in topics:
            self._waiting.setdefault(topic, set()).add(waiter)
        self._look_later()
        try:
            return await waiter.future
        finally:
            timer.cancel()
            self._forget(waiter)

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
                waiter.wake()

    def close(self) -> None:
        """Wake all fetches; from now on none waits, and there is no further look."""
        self.is_closed = True
        if self._next_look is not None:
            self._next_look.cancel()
        self._wake_all()

    def _forget(self, waiter: _Waiter) -> None:
        for topic in waiter.topics:
            waiting = self._waiting[topic]
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[topic]

    def _look_later(self) -> None:
        is_wanted = self._waiting and not self.is_closed
        if is_wanted and self._next_look is None and self._reading is None:
            loop = asyncio.get_running_loop()
            self._next_look = loop.call_later(self._interval_s, self._look)

    def _look(self) -> None:
        self._next_look = None
        image = self._topics.image_at_hand()
        if image is None:
            self._reading = asyncio.ensure_future(self._read())
            return
        self.saw(image)
        self._look_later()

    async def _read(self) -> None:
        try:
            self.saw(await self._newest())
        except SparklogError:
            self._wake_all()
        finally:
            self._reading = None
            self._look_later()

    def _wake_all(self) -> None:
        for waiting in self._waiting.values():
            for waiter in waiting:
                waiter.wake()
