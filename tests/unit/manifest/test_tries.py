"""How long a commit keeps trying."""

import pytest

from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    StorageError,
    UsageError,
)
from sparklog.manifest.tries import BACK_OFF_MAX_EXPONENT, COMMIT_TIMEOUT_MS, STORAGE_TRIES, Tries
from tests.manifests import BusyClock


@pytest.fixture
def clock() -> BusyClock:
    return BusyClock()


@pytest.fixture
def tries(clock: BusyClock) -> Tries:
    return Tries(clock, "topic/manifest")


def fail(tries: Tries, error: Exception) -> None:
    with tries:
        raise error


class TestTries:
    def test_bear_what_may_pass(self, tries: Tries) -> None:
        fail(tries, CommitConflictError("somebody was faster"))
        fail(tries, StorageError("hiccup"))

        tries.check()

    @pytest.mark.parametrize("error", [UsageError("no"), CorruptMetadataError("no"), KeyError("k")])
    def test_bear_nothing_else(self, tries: Tries, error: Exception) -> None:
        with pytest.raises(type(error)):
            fail(tries, error)

    def test_end_with_the_third_storage_error(self, tries: Tries) -> None:
        for number in range(STORAGE_TRIES):
            tries.check()
            fail(tries, StorageError(f"full {number}"))

        with pytest.raises(StorageError, match="full 2"):
            tries.check()

    def test_end_with_a_conflict_after_two_minutes(self, tries: Tries, clock: BusyClock) -> None:
        start_ms = clock.now_ms()
        for _ in range(2_000):
            fail(tries, CommitConflictError("again"))
            tries.check()
        clock.advance(start_ms + COMMIT_TIMEOUT_MS + 1 - clock.now_ms())

        with pytest.raises(CommitConflictError, match="again"):
            tries.check()

    def test_pause_a_little_longer_each_time(self, tries: Tries, clock: BusyClock) -> None:
        pauses = []
        for _ in range(100):
            before_ms = clock.now_ms()
            fail(tries, CommitConflictError("again"))
            pauses.append(clock.now_ms() - before_ms)

        assert max(pauses[:3]) <= 8
        assert max(pauses) <= 2**BACK_OFF_MAX_EXPONENT
        assert len(set(pauses)) > 10


class TestReading:
    def test_fails_as_it_is_before_any_try(self, tries: Tries) -> None:
        with pytest.raises(CorruptMetadataError, match="garbage"), tries.reading():
            raise CorruptMetadataError("garbage")

    def test_leaves_the_outcome_unknown_after_one(self, tries: Tries) -> None:
        fail(tries, StorageError("hiccup"))

        unknown = pytest.raises(CommitOutcomeUnknownError, match=r"topic/manifest: .* \(garbage\)")
        with unknown, tries.reading():
            raise CorruptMetadataError("garbage")
