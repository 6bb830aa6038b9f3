"""What only the in-memory store has: somebody who comes between."""

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import CommitConflictError
from sparklog.manifest.memory import MemoryManifestStore
from sparklog.model import OffsetRange
from tests.manifests import append, segment, spans


class TestInterrupt:
    def test_makes_a_commit_plan_again(self) -> None:
        waiting = [segment(records=3), segment(records=4)]

        def interrupt() -> None:
            if waiting:
                append(store, waiting.pop())

        store = MemoryManifestStore(ManualClock(), interrupt)

        assert append(store, segment()).ranges == (OffsetRange(0, 7, 17),)
        assert spans(store.snapshot()) == [(0, 3), (3, 7), (7, 17)]

    def test_without_end_is_told(self) -> None:
        def interrupt() -> None:
            store._version += 1

        store = MemoryManifestStore(ManualClock(), interrupt)

        with pytest.raises(CommitConflictError, match="others kept winning"):
            append(store, segment())
