"""Both ways to wait look again, return at once when it is so, and end in time."""

import asyncio
from types import SimpleNamespace

import pytest

from tests import waiting
from tests.waiting import LOOK_AT_LEAST_EVERY_S, LOOK_EVERY_S, turns_until, until


def test_it_looks_again() -> None:
    answers = [True, False, False]
    until(answers.pop)
    assert answers == []


def test_it_looks_less_often_the_longer_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(waiting, "_NEVER", SimpleNamespace(wait=pauses.append))
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: sum(pauses)))
    until(lambda: sum(pauses) > 10)

    assert (pauses[0], pauses[-1]) == (LOOK_EVERY_S, LOOK_AT_LEAST_EVERY_S)
    assert pauses == sorted(pauses)
    assert len(pauses) < 150


def test_it_looks_again_in_turns_of_the_loop() -> None:
    answers = [True, False, False]
    asyncio.run(turns_until(answers.pop))
    assert answers == []


def test_it_ends_in_time() -> None:
    with pytest.raises(TimeoutError, match=r"not so within 0\.01 s"):
        until(lambda: False, most_s=0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(turns_until(lambda: False, most_s=0.01))
