"""The clocks."""

import time

import pytest

from sparklog.clock import ManualClock, SystemClock, age_s


class TestAge:
    @pytest.mark.parametrize(
        ("since_ms", "seconds"), [(1_000, 4), (1_001, 3), (6_000, 0), (None, None)]
    )
    def test_is_in_whole_seconds(self, since_ms: int | None, seconds: int | None) -> None:
        assert age_s(since_ms, 5_000) == seconds


class TestSystemClock:
    def test_tells_milliseconds_since_the_epoch(self) -> None:
        before = time.time_ns() // 1_000_000
        now_ms = SystemClock().now_ms()

        assert before <= now_ms <= time.time_ns() // 1_000_000

    def test_waits_in_milliseconds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waited: list[float] = []
        monkeypatch.setattr(time, "sleep", waited.append)
        SystemClock().sleep_ms(250)

        assert waited == [0.25]


class TestManualClock:
    def test_moves_when_told_to(self) -> None:
        clock = ManualClock(1_000)
        clock.advance(500)

        assert clock.now_ms() == 1_500

    def test_moves_at_least_a_millisecond_while_waiting(self) -> None:
        clock = ManualClock(0)
        clock.sleep_ms(0.1)
        clock.sleep_ms(20.4)

        assert clock.now_ms() == 21
