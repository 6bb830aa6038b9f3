"""Steps one after the other, and what becomes of those that fail."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from sparklog.errors import CommitConflictError, LateWriterError, StorageError
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO, JobRun, StepReport
from tests.maintenance import context_of
from tests.partitions import Partition

Action = Callable[[], Outcome]

PLAN = [{"partition": 0, "bytes": 7}]


def done() -> Outcome:
    return Outcome(counts={"segments": 2})


def half_done() -> Outcome:
    return Outcome(counts={"segments": 1}, problems=["t-1: damaged"])


def raising(error: Exception) -> Action:
    def action() -> Outcome:
        raise error

    return action


class Runs:
    """A job of one step an action, for topics `0`, `1`, …; and what was reported."""

    def __init__(self, *actions: Action, dry_run: bool = False) -> None:
        self.actions = actions
        self.context = context_of(Partition())
        self.asked: list[tuple[Sequence[str], Mapping[str, Any]]] = []
        self.reports: list[StepReport] = []
        one = JobRun(
            name="sweep", job=self.job, topics=["a"], options={"far": True}, dry_run=dry_run
        )
        self.code = one.run(self.context, self.reports.append)

    def job(
        self, context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
    ) -> Iterator[Step]:
        assert context is self.context
        self.asked.append((topics, options))
        for number, action in enumerate(self.actions):
            yield Step(topic=str(number), rows=PLAN, execute=action)

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        return [report.as_row() for report in self.reports]


class TestJobRun:
    def test_does_every_step_and_reports_each(self) -> None:
        runs = Runs(done, Outcome)

        first, second = runs.rows
        assert runs.code == DONE
        assert runs.asked == [(["a"], {"far": True})]
        assert first == {
            "job": "sweep",
            "topic": "0",
            "segments": 2,
            "problems": [],
            "duration_ms": 0,
        }
        assert (second["topic"], second["problems"]) == ("1", [])

    def test_without_steps_has_nothing_to_do(self) -> None:
        assert (Runs().code, Runs().rows) == (NOTHING_TO_DO, [])

    @pytest.mark.parametrize("actions", [(half_done, done), (done, half_done), (half_done,)])
    def test_fails_when_a_part_of_a_step_does(self, actions: Sequence[Action]) -> None:
        assert Runs(*actions).code == FAILED

    def test_goes_on_after_a_step_that_fails(self) -> None:
        runs = Runs(raising(StorageError("no space left")), done)

        assert runs.code == FAILED
        assert [row["problems"] for row in runs.rows] == [["no space left"], []]
        assert [report.is_failed for report in runs.reports] == [True, False]

    def test_a_conflict_is_no_failure(self) -> None:
        runs = Runs(raising(CommitConflictError("others were faster")))

        assert runs.code == DONE
        assert (runs.rows[0]["conflicts"], runs.rows[0]["problems"]) == (1, [])

    def test_a_step_that_took_too_long_is_left_to_the_next_run(self) -> None:
        runs = Runs(raising(LateWriterError("before the vacuum horizon")))

        assert runs.code == DONE
        assert (runs.rows[0]["conflicts"], runs.rows[0]["problems"]) == (1, [])
        assert runs.rows[0]["notes"] == ["before the vacuum horizon"]

    def test_a_bug_ends_it(self) -> None:
        with pytest.raises(ZeroDivisionError):
            Runs(raising(ZeroDivisionError()))

    def test_a_dry_run_does_nothing_and_tells_the_plan(self) -> None:
        runs = Runs(raising(AssertionError("done in a dry run")), dry_run=True)

        assert runs.code == DONE
        assert runs.rows == [{"job": "sweep", "topic": "0", "dry_run": True, "plan": PLAN}]
        assert not runs.reports[0].is_failed

    def test_tells_how_long_a_step_took(self) -> None:
        def slow() -> Outcome:
            context.clock.sleep_ms(1500)
            return done()

        context = context_of(Partition())
        reports: list[StepReport] = []
        step = Step(topic="t", rows=PLAN, execute=slow)
        JobRun(name="sweep", job=lambda *_: iter([step]), options={}).run(context, reports.append)

        assert [report.duration_ms for report in reports] == [1500]
