"""The collector runs seldom while somebody asks for it, and as before afterwards."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from sparklog.garbage import (
    ALL_EVERY_S,
    COLLECT_EVERY,
    SERVICE_COLLECTS_EVERY,
    Settled,
    collect_as_a_service,
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
    gc.callbacks[:] = [one for one in gc.callbacks if not isinstance(one, Settled)]
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("as_before")
def test_a_service_looks_at_no_object_that_was_there() -> None:
    collect_as_a_service()
    assert gc.get_threshold()[0] == SERVICE_COLLECTS_EVERY
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("as_before")
def test_a_service_collects_seldom_though_a_thread_asked_for_that_before() -> None:
    with seldom_collected():
        collect_as_a_service()
        assert gc.get_threshold()[0] == COLLECT_EVERY
    assert gc.get_threshold()[0] == SERVICE_COLLECTS_EVERY


class _Cycle:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.own = self


@pytest.mark.usefixtures("as_before")
class TestSettled:
    """Objects that survive a collection are looked at again after ten minutes."""

    @pytest.mark.parametrize("generation", [0, 1, 2])
    def test_a_collection_exempts_what_it_found_in_use(self, generation: int) -> None:
        gc.callbacks.append(Settled(lambda: 0))
        used = _Cycle()
        gc.collect(generation)
        gone = weakref.ref(used)
        del used
        gc.collect()

        assert gone() is not None

    def test_everything_is_looked_at_after_ten_minutes(self) -> None:
        times = iter([0, 0, ALL_EVERY_S, ALL_EVERY_S])
        gc.callbacks.append(Settled(lambda: next(times)))
        used = _Cycle()
        gc.collect()
        gone = weakref.ref(used)
        del used
        gc.collect()

        assert gone() is None
