"""The collector runs seldom while somebody asks for it, and as before afterwards."""

import gc
from collections.abc import Iterator

import pytest

from sparklog.garbage import (
    COLLECT_EVERY,
    SERVICE_COLLECTS_EVERY,
    freeze_loaded,
    seldom_collected,
)


def test_it_runs_seldom_until_the_last_one_is_done() -> None:
    before = gc.get_threshold()
    first, second = seldom_collected(), seldom_collected()
    with second:
        with first:
            assert gc.get_threshold() == (max(COLLECT_EVERY, before[0]), *before[1:])
        assert gc.get_threshold()[0] >= COLLECT_EVERY
    assert gc.get_threshold() == before


def test_it_is_the_same_after_an_error() -> None:
    before = gc.get_threshold()
    try:
        with seldom_collected():
            raise ZeroDivisionError
    except ZeroDivisionError:
        assert gc.get_threshold() == before


@pytest.fixture
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("as_before")
def test_a_service_looks_at_no_object_that_was_there() -> None:
    freeze_loaded()
    assert gc.get_threshold()[0] == SERVICE_COLLECTS_EVERY
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("as_before")
def test_a_service_collects_seldom_though_a_thread_asked_for_that_before() -> None:
    with seldom_collected():
        freeze_loaded()
        assert gc.get_threshold()[0] == COLLECT_EVERY
    assert gc.get_threshold()[0] == SERVICE_COLLECTS_EVERY
