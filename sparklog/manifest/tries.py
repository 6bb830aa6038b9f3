"""How long a commit keeps trying, and what it bears: shared by both kinds of table.

tries = Tries(clock, table)
while True:
    with tries.reading():   after a try, what cannot be read is an unknown outcome
        …                   did it land?
    tries.check()           raises the third storage error, or a conflict after two minutes
    with tries:             bears conflicts and storage errors, and pauses
        return …
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from sparklog.clock import Clock
from sparklog.errors import (
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    SparklogError,
    StorageError,
)

COMMIT_TIMEOUT_MS = 120_000
"""How long a commit keeps trying: Kafka's delivery.timeout.ms."""

STORAGE_TRIES = 3
BACK_OFF_MAX_EXPONENT = 6
"""The longest pause is 2^6 ms; each is drawn from nothing up to its length."""


class Tries:
    """The tries of one commit; around each stands `with tries:`, which bears what may pass."""

    def __init__(self, clock: Clock, table: str) -> None:
        self._clock = clock
        self._table = table
        self._deadline_ms = clock.now_ms() + COMMIT_TIMEOUT_MS
        self._borne = 0
        self._failures = 0
        self._last: CommitError | StorageError | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn an error into CommitOutcomeUnknownError when an earlier try may have landed."""
        try:
            yield
        except SparklogError as error:
            if self._last is None:
                raise
            raise CommitOutcomeUnknownError(
                f"{self._table}: a commit may have landed and the table cannot be read ({error}): "
                f"replay with the same txnAppId and txnVersion"
            ) from error

    def check(self) -> None:
        """Raise the last error when there were enough tries of its kind."""
        is_late = self._clock.now_ms() > self._deadline_ms
        if self._last is not None and (is_late or self._failures >= STORAGE_TRIES):
            raise self._last

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, CommitConflictError | StorageError):
            return False
        self._last = error
        self._failures += isinstance(error, StorageError)
        self._borne += 1
        longest_ms = 2.0 ** min(self._borne, BACK_OFF_MAX_EXPONENT)
        self._clock.sleep_ms(longest_ms * random.random())  # noqa: S311 - jitter, not a secret
        return True
