"""The state of a partition and of a group: each of Burrow's rules, and a naive twin."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.coordinator.lag_state import LagState, SeenCommit, group_state, partition_state
from tests.naive import lag_state as naive

NOW_MS = 1_000_000
STEP_MS = 10_000


def window(
    *offsets: int, lags: Sequence[int | None] = (), silent_ms: int = 0
) -> tuple[list[SeenCommit], int]:
    """Commits ten seconds apart, the last one `silent_ms` ago, and now. Lags are 9 unless given."""
    first_ms = NOW_MS - silent_ms - STEP_MS * (len(offsets) - 1)
    found = lags or [9] * len(offsets)
    pairs = zip(offsets, found, strict=True)
    commits = [SeenCommit(one, first_ms + at * STEP_MS, lag) for at, (one, lag) in enumerate(pairs)]
    return commits, NOW_MS


def state(found: tuple[list[SeenCommit], int], *ends: int, lag: int | None = 9) -> str | None:
    return partition_state(found[0], ends, lag, found[1])


class TestOfPartition:
    def test_who_has_caught_up_is_never_in_error(self) -> None:
        assert state(window(5, 5, silent_ms=NOW_MS), lag=0) == "OK"
        assert state(window(), lag=0) == "OK"

    def test_who_was_caught_up_in_the_window_is_well(self) -> None:
        assert state(window(1, 1, 1, lags=[0, 3, 9])) == "OK"

    def test_commits_of_one_offset_are_a_stall(self) -> None:
        assert state(window(7, 7, 7)) == "STALL"
        assert state(window(7, 7, 7, lags=[3, 2, 1])) == "STALL"

    @pytest.mark.parametrize(
        ("lags", "found"),
        [([5, 5, 5], "WARN"), ([5, 6, 9], "WARN"), ([5, 9, 8], "OK"), ([9, None, 8], "OK")],
    )
    def test_commits_that_go_on_while_the_lag_never_shrinks_are_a_warning(
        self, lags: list[int | None], found: str
    ) -> None:
        assert state(window(1, 2, 3, lags=lags)) == found

    def test_lags_that_are_not_known_do_not_shrink(self) -> None:
        assert state(window(1, 2, 3, lags=[None, None, None])) == "WARN"

    @pytest.mark.parametrize(("silent_ms", "found"), [(20_000, "WARN"), (20_001, "STOP")])
    def test_silence_for_longer_than_the_window_is_a_stop(self, silent_ms: int, found: str) -> None:
        assert state(window(1, 2, 3, silent_ms=silent_ms)) == found

    def test_a_stop_counts_though_the_group_was_caught_up_in_the_window(self) -> None:
        assert state(window(1, 2, 3, lags=[0, 0, 0], silent_ms=NOW_MS)) == "STOP"

    def test_who_had_reached_the_end_lately_has_not_stopped(self) -> None:
        silent = window(1, 2, 3, lags=[0, 0, 0], silent_ms=NOW_MS)
        assert state(silent, 12, 3) == "OK"
        assert state(silent, 12, 4) == "STOP"

    def test_offsets_that_went_back_are_a_rewind(self) -> None:
        assert state(window(5, 6, 2, 3)) == "REWIND"
        assert state(window(5, 6, 2, 3, lags=[0, 0, 4, 3])) == "REWIND"

    def test_who_has_come_to_where_it_was_has_recovered(self) -> None:
        assert state(window(5, 6, 2, 6, lags=[9, 8, 12, 8])) == "OK"

    @pytest.mark.parametrize("lag", [None, 9])
    def test_without_a_window_or_a_lag_none_is_known(self, lag: int | None) -> None:
        assert state(window(5), lag=lag) is None

    @given(
        st.lists(
            st.tuples(st.integers(0, 6), st.integers(0, 30), st.none() | st.integers(0, 4)),
            min_size=2,
            max_size=10,
        ),
        st.lists(st.integers(0, 8), max_size=3),
        st.integers(0, 3),
        st.integers(30, 90),
    )
    def test_as_the_naive_twin(
        self,
        commits: list[tuple[int, int, int | None]],
        ends: list[int],
        lag: int,
        now_ms: int,
    ) -> None:
        """Goal: the rules and their order. Method: small numbers, so that all of them meet."""
        commits.sort(key=lambda one: one[1])
        found = partition_state([SeenCommit(*one) for one in commits], ends, lag, now_ms)
        assert found == naive.state(commits, ends, lag, now_ms)


class TestOfGroup:
    @given(st.lists(st.none() | st.sampled_from([one for one in LagState if one != "ERR"])))
    def test_it_is_the_worst_of_its_partitions(self, states: list[LagState | None]) -> None:
        assert group_state(states) == naive.group(states)
