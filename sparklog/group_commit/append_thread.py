"""A thread that does one piece of work after another, and lives as long as its owner.

It takes work from a queue. A ThreadPoolExecutor makes a future with a lock and a condition for each
piece, and asyncio a second future; at one request a commit this costs a tenth of the event loop's
time.
"""

import atexit
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class AppendThread:
    """The thread begins with the first work. A piece of work must not raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Do a piece of work when all earlier ones are done."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
            # A process that ends without `close` finishes the work, as with an executor.
            atexit.register(self.close)
        self._work.put(work)

    def close(self) -> None:
        """Return when all work is done, and the thread has ended."""
        if self._thread is not None:
            atexit.unregister(self.close)
            self._work.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # while it waits, the thread keeps nothing of the last group
