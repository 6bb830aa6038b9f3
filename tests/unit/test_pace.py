"""Background work of a service rests between its pieces, and never more than it may."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from sparklog import pace
from sparklog.pace import (
    REST,
    REST_MAX_S,
    SPELL_S,
    Pace,
    let_rest,
    paced,
    rest,
    rest_no_more,
    rested,
)


class Worker:
    """A thread whose time and sleep are made up."""

    def __init__(self) -> None:
        self.used_s = 5.0
        self.rests = list[float]()

    def pace(self, most_s: float) -> Pace:
        return Pace(most_s, used_s=lambda: self.used_s, sleep=self.rests.append)


class TestPace:
    def test_rests_several_times_as_long_as_it_has_worked(self) -> None:
        worker = Worker()
        one = worker.pace(1)
        for _ in range(4):
            worker.used_s += SPELL_S * 0.75
            one.rest()

        assert worker.rests == pytest.approx([REST * SPELL_S * 1.5] * 2)

    def test_a_rest_has_a_limit(self) -> None:
        worker = Worker()
        one = worker.pace(1)
        worker.used_s += REST_MAX_S
        one.rest()

        assert worker.rests == [REST_MAX_S]

    def test_of_two_works_each_rests_twice_as_long(self) -> None:
        worker = Worker()
        one = worker.pace(1)
        for worked_s in (SPELL_S, REST_MAX_S):
            worker.used_s += worked_s
            one.rest(2)

        assert worker.rests == pytest.approx([2 * REST * SPELL_S, 2 * REST_MAX_S])

    def test_all_rests_together_have_a_limit(self) -> None:
        worker = Worker()
        one = worker.pace(REST_MAX_S * 1.5)
        for _ in range(3):
            worker.used_s += REST_MAX_S
            one.rest()

        assert worker.rests == pytest.approx([REST_MAX_S, REST_MAX_S / 2])


class TestService:
    @pytest.fixture(autouse=True)
    def process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pace, "_process", pace._Process())
        monkeypatch.setattr(pace, "SPELL_S", 0)

    @pytest.fixture
    def worker(self, monkeypatch: pytest.MonkeyPatch) -> Worker:
        worker = Worker()
        monkeypatch.setattr(pace, "Pace", worker.pace)
        return worker

    def test_other_processes_do_not_rest(self, worker: Worker) -> None:
        with paced(1):
            assert list(rested("ab")) == ["a", "b"]

        assert worker.rests == []

    def test_work_that_has_begun_rests_no_more_when_the_service_ends(self, worker: Worker) -> None:
        let_rest()
        with paced(1):
            rest()
            rest_no_more()
            rest()

        assert len(worker.rests) == 1

    def test_rests_after_each_piece_until_the_work_ends(self, worker: Worker) -> None:
        let_rest()
        rest()
        assert worker.rests == []

        with paced(1):
            for count, piece in enumerate(rested("ab")):
                assert piece == "ab"[count]
                assert len(worker.rests) == count

        rest()
        assert len(worker.rests) == 2

    def test_beside_another_work_it_rests_twice_as_long(self, worker: Worker) -> None:
        let_rest()
        has_begun, may_end = Event(), Event()

        def other() -> None:
            with paced(1):
                has_begun.set()
                may_end.wait(30)

        with ThreadPoolExecutor(1) as pool, paced(1):
            ended = pool.submit(other)
            has_begun.wait(30)
            worker.used_s += 0.001
            rest()
            may_end.set()
            ended.result()
            worker.used_s += 0.001
            rest()

        assert worker.rests == pytest.approx([0.001 * REST * 2, 0.001 * REST])
