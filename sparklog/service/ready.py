"""Whether a service can read its log dir, for /ready.

Whoever asks has an answer within a second, even if the storage is away and its client still tries.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sparklog.errors import SparklogError

WAIT_S: Final = 0.8
"""How long (s) an answer waits for the storage: a probe of Kubernetes waits for a second."""
NO_ANSWER: Final = "the storage does not answer"


class Readiness:
    """Looks at a log dir, one look at a time, on a thread of its own. For one event loop."""

    def __init__(self, look: Callable[[], object], told: Callable[[SparklogError], str]) -> None:
        """`look` reads the newest image; `told` returns what clients may know of its error."""
        self._look = look
        self._told = told
        self._thread = ThreadPoolExecutor(1, "ready")
        self._looking: asyncio.Future[object] | None = None

    async def problem(self) -> str | None:
        """Return why the log dir cannot be read; None if it can.

        A look that takes longer than WAIT_S goes on; until it ends the answer is NO_ANSWER.
        """
        looking = self._looking
        if looking is None:
            loop = asyncio.get_running_loop()
            looking = self._looking = loop.run_in_executor(self._thread, self._look)
            looking.add_done_callback(self._looked)
        await asyncio.wait([looking], timeout=WAIT_S)
        if not looking.done():
            return NO_ANSWER
        error = looking.exception()
        if isinstance(error, SparklogError):
            return self._told(error)
        looking.result()
        return None

    def _looked(self, looking: "asyncio.Future[object]") -> None:
        looking.exception()  # marked as retrieved, even if nobody waits any more
        self._looking = None

    def close(self) -> None:
        """Begin no further look; one that has begun may go on."""
        self._thread.shutdown(wait=False)
