"""A thread that runs one call after another, and lives as long as its owner.

It takes the calls from a queue. A ThreadPoolExecutor would make a future with a lock and a
condition for each call, and asyncio a second future. With one request in each commit that would
take a tenth of the event loop's time.
"""

import atexit
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class AppendThread:
    """The thread starts with the first call. A call must not raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Call `work` when all earlier calls are done."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
            # A process that ends without `close` waits for the calls, as with an executor.
            atexit.register(self.close)
        self._work.put(work)

    def close(self) -> None:
        """Return when all calls are done, and the thread has ended."""
        if self._thread is not None:
            atexit.unregister(self.close)
            self._work.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # while it waits, the thread keeps nothing of the last group
