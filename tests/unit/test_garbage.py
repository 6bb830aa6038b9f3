"""The collector runs seldom while somebody asks for it, and as before afterwards."""

import gc
import weakref
from collections.abc import Iterator
from threading import enumerate as threads

import pytest

from sparklog import garbage
from sparklog.garbage import (
    ALL_EVERY_S,
    COLLECT_EVERY,
    SERVICE_COLLECTS_EVERY,
    collect_as_a_service,
    look_at_all,
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
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
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

    def settled(self, generation: int) -> "weakref.ref[_Cycle]":
        """A cycle that a collection has found in use, and that is garbage now."""
        used = _Cycle()
        gc.collect(generation)
        return weakref.ref(used)

    @pytest.mark.parametrize("generation", [0, 1, 2])
    def test_a_collection_exempts_what_it_found_in_use(self, generation: int) -> None:
        collect_as_a_service()
        gone = self.settled(generation)
        gc.collect()

        assert gone() is not None

    def test_a_look_at_all_objects_frees_them(self) -> None:
        collect_as_a_service()
        gone = self.settled(0)
        look_at_all()

        assert gone() is None

    def test_a_thread_looks_every_ten_minutes(self) -> None:
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                raise StopIteration

        gc.callbacks.append(garbage._settle)
        gone = self.settled(0)
        with pytest.raises(StopIteration):
            garbage._look_at_all_now_and_then(sleep)

        assert gone() is None
        assert slept == [ALL_EVERY_S] * 3

    def test_the_thread_begins_with_the_service(self) -> None:
        collect_as_a_service()

        assert "collector" in {one.name for one in threads()}
