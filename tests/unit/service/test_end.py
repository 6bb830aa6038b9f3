"""The end of a service: a thread that waits for the storage does not hold it up."""

import os

import pytest

from sparklog.service import end
from sparklog.service.end import end_within
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
