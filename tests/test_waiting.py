"""Both ways to wait look again, return at once when it is so, and end in time."""

import asyncio

import pytest

from tests.waiting import turns_until, until


def test_it_looks_again() -> None:
    answers = [True, False, False]
    until(answers.pop)
    assert answers == []


def test_it_looks_again_in_turns_of_the_loop() -> None:
    answers = [True, False, False]
    asyncio.run(turns_until(answers.pop))
    assert answers == []


def test_it_ends_in_time() -> None:
    with pytest.raises(TimeoutError, match=r"not so within 0\.01 s"):
        until(lambda: False, most_s=0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(turns_until(lambda: False, most_s=0.01))
