"""The end of a service: a thread that waits for the storage does not hold it up."""

import os
import signal
from collections.abc import Iterator

import pytest

from sparklog.service import end
from sparklog.service.end import end_within, hang_up_as_sigterm
from tests.waiting import until


def test_a_process_that_is_still_there_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(end, "GRACE_S", 0)
    end_within(1, lambda: codes.append(1))
    until(lambda: codes == [1, 0])
    assert "work is still under way" in caplog.text


@pytest.fixture
def handlers() -> Iterator[None]:
    """The test may change what SIGHUP and SIGTERM do."""
    before = {one: signal.getsignal(one) for one in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    ("before", "told"), [(signal.SIG_DFL, [signal.SIGTERM]), (signal.SIG_IGN, [])]
)
def test_a_hangup_is_a_sigterm_and_stays_ignored_under_nohup(
    before: signal.Handlers, told: list[int]
) -> None:
    found: list[int] = []
    signal.signal(signal.SIGHUP, before)
    hang_up_as_sigterm()
    signal.signal(signal.SIGTERM, lambda number, _: found.append(number))
    signal.raise_signal(signal.SIGHUP)
    assert found == told
