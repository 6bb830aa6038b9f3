"""The window of commits: how many it keeps, what it merges, what it asks."""

from sparklog.coordinator.lag_state import SeenCommit
from sparklog.coordinator.lag_window import DISTANCE_MS, INTERVALS, CommitWindow
from sparklog.coordinator.requests import CommittedOffset
from sparklog.model import TopicPartition

PLACE = TopicPartition("t", 0)


def seen(*commits: tuple[int, int]) -> CommitWindow:
    """A window that saw offsets at times of the group `readers`."""
    window = CommitWindow()
    for offset, committed_ms in commits:
        window.saw("readers", PLACE, CommittedOffset(offset, committed_ms=committed_ms))
    return window


def commits(window: CommitWindow, end: int | None = 100) -> list[SeenCommit]:
    return window.commits("readers", PLACE, lambda _: end)


def test_the_last_ones_are_kept() -> None:
    found = commits(seen(*((number, number * DISTANCE_MS) for number in range(INTERVALS + 3))))
    assert [offset for offset, *_ in found] == list(range(3, INTERVALS + 3))


def test_a_commit_within_a_second_replaces_the_one_before_and_keeps_its_time() -> None:
    window = seen((1, 0), (2, 999), (3, 1_500))
    assert commits(window) == [(2, 0, 98), (3, 1_500, 97)]


def test_what_was_seen_before_is_not_seen_twice() -> None:
    assert commits(seen((1, 0), (2, 5_000), (1, 0), (2, 5_000))) == [(1, 0, 99), (2, 5_000, 98)]


def test_a_lag_is_asked_for_until_it_is_known() -> None:
    window = seen((7, 3))
    assert window.commits("readers", PLACE, lambda _: None) == [SeenCommit(7, 3, None)]
    assert window.commits("readers", PLACE, {3: 5}.get) == [SeenCommit(7, 3, 0)]
    assert commits(window) == [(7, 3, 0)]


def test_a_deleted_offset_has_no_commits() -> None:
    window = seen((1, 0))
    window.saw("readers", TopicPartition("t", 1), CommittedOffset(1))
    window.saw("readers", PLACE, None)
    assert commits(window) == []
    window.saw("readers", TopicPartition("t", 1), None)
    window.saw("nobody", PLACE, None)
    assert commits(window) == []
