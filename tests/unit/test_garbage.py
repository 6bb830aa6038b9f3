"""The collector runs seldom while somebody asks for it, and as before afterwards."""

import gc

from sparklog.garbage import (
    COLLECT_EVERY,
    SERVICE_COLLECTS_EVERY,
    collect_seldom,
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


def test_a_service_looks_at_no_object_that_was_there() -> None:
    before = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_threshold() == (SERVICE_COLLECTS_EVERY, *before[1:])
        assert gc.get_freeze_count() > 0
        gc.set_threshold(*before)
        with seldom_collected():
            collect_seldom()
            assert gc.get_threshold()[0] >= COLLECT_EVERY
        assert gc.get_threshold() == (SERVICE_COLLECTS_EVERY, *before[1:])
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
