"""Timeouts of transactions as a job, where only a scheduler runs, or a job by hand."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import InvalidTxnStateError, StorageError
from sparklog.fleet import LocalFleet
from sparklog.maintenance.abort_transactions import abort_transactions
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.registry import JOBS
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO, JobRun, StepReport
from sparklog.metadata.plans.cluster import with_broker
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.transactions.timeouts import CLOCKS_MS, ID_EXPIRATION_MS
from tests.transactions import TIMEOUT_MS, Client, Instance, new_log_dir


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    """A log dir with two topics; its catalog is that of one process."""
    return new_log_dir(str(tmp_path / "log"), "t", "u")


@pytest.fixture
def client(instance: Instance) -> Client:
    """A producer that has begun a transaction, and is gone."""
    found = Client(instance)
    found.init()
    found.produce("x")
    return found


def run(instance: Instance, *topics: str, dry_run: bool = False) -> tuple[int, list[StepReport]]:
    """One run of the job in the process of an instance."""
    reports: list[StepReport] = []
    name = "abort_transactions"
    job = JobRun(name=name, job=JOBS[name].job, topics=topics, options={}, dry_run=dry_run)
    context = JobContext(instance.catalog, LocalFleet())
    return job.run(context, reports.append), reports


def advance(instance: Instance, ms: int) -> None:
    assert isinstance(instance.catalog.clock, ManualClock)
    instance.catalog.clock.advance(ms)


def test_one_that_takes_too_long_is_aborted(instance: Instance, client: Client) -> None:
    codes = [run(instance)[0]]
    advance(instance, TIMEOUT_MS)
    codes.append(run(instance)[0])
    advance(instance, 1)
    code, [report] = run(instance)

    assert (codes, code) == ([NOTHING_TO_DO, NOTHING_TO_DO], DONE)
    assert report.outcome is not None
    assert report.outcome.counts == {"aborted": 1, "forgotten": 0}
    assert instance.log().last_stable_offset == instance.log().log_end_offset
    with pytest.raises(InvalidTxnStateError):
        client.commit()
    assert client.abort().epoch == 1


def test_a_job_by_hand_aborts_what_is_older_than_clocks_explain(
    instance: Instance, client: Client
) -> None:
    later, plan = Instance(instance.catalog.files.uri), {"abort": "id", "age_s": 360}
    advance(later, TIMEOUT_MS + CLOCKS_MS)
    assert run(later) == (NOTHING_TO_DO, [])
    later = Instance(instance.catalog.files.uri)
    advance(later, TIMEOUT_MS + CLOCKS_MS + 1)

    [shown] = run(later, dry_run=True)[1]
    assert (shown.rows, instance.state().is_open) == ([plan], True)
    assert run(later)[0] == DONE
    assert not instance.state().is_open


def test_topics_choose_those_that_wrote_to_them(instance: Instance, client: Client) -> None:
    later = Instance(instance.catalog.files.uri)
    advance(later, TIMEOUT_MS + CLOCKS_MS + 1)

    assert [run(later, "u")[0], run(later, "t")[0]] == [NOTHING_TO_DO, DONE]


def test_one_that_cannot_be_ended_is_a_problem(
    instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise StorageError("the disk is full")

    later = Instance(instance.catalog.files.uri)
    advance(later, TIMEOUT_MS + CLOCKS_MS + 1)
    monkeypatch.setattr("sparklog.transactions.steps.Transactions.time_out", broken)
    code, [report] = run(later)

    assert report.outcome is not None
    assert (code, report.outcome.problems) == (FAILED, ["transactional id 'id': the disk is full"])


def test_ids_that_nobody_uses_are_forgotten(instance: Instance, client: Client) -> None:
    client.commit()
    advance(instance, ID_EXPIRATION_MS)
    assert run(instance)[0] == NOTHING_TO_DO
    advance(instance, 1)
    code, [report] = run(instance)

    assert (code, report.rows) == (DONE, [{"forget": "id", "age_s": ID_EXPIRATION_MS // 1000}])
    assert instance.transactions.list() == []


def test_a_gateway_forgets_them_itself(instance: Instance, client: Client) -> None:
    client.commit()
    advance(instance, ID_EXPIRATION_MS + 1)
    broker = Broker(0, "incarnation", (Endpoint("PLAINTEXT", "localhost", 9092),), None)
    instance.catalog.log.commit(lambda image: with_broker(image, broker))

    assert run(instance)[0] == NOTHING_TO_DO
    assert abort_transactions is JOBS["abort_transactions"].job
