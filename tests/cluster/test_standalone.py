"""produce and consume on a cluster: other processes than the driver's write and read the files."""

import json
from dataclasses import dataclass

import pytest

from sparklog.admin import AdminClient, NewTopic
from tests.cluster.driver import FEW, RECORDS
from tests.cluster.standalone import WORKERS, Standalone, run_driver
from tests.logs import new_topic, rows
from tests.s3 import S3LogDir, S3Server, s3_server

__all__ = ["s3_server"]

pytestmark = [pytest.mark.cluster, pytest.mark.s3, pytest.mark.slow]

EXPECTED = {
    "produced": RECORDS,
    "tried_again": FEW,
    "count": RECORDS + FEW,
    "places": RECORDS + FEW,
    "sum": sum(range(RECORDS)) + sum(range(FEW)),
}


@dataclass(frozen=True)
class Finished:
    """A driver that has run, on a local log dir and on one in an object store."""

    answers: list[dict[str, int]]
    local: str
    remote: S3LogDir
    workers: set[str]
    printed: list[str]
    """What driver, executors and event log wrote."""


@pytest.fixture(scope="module")
def finished(
    cluster: Standalone, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Finished:
    """One driver for all tests.

    It alone knows how to reach the store, and gives it as options.
    """
    folder = tmp_path_factory.mktemp("cluster")
    local, remote = new_topic(folder / "log"), s3_server.new_log_dir()
    AdminClient(remote.uri, remote.options).create_topics([NewTopic("t", 4)])
    events = folder / "events"
    events.mkdir()
    others = set(cluster.executor_logs)
    driver = run_driver(cluster, events.as_uri(), local, remote.uri, environ=remote.options)
    assert driver.returncode == 0, driver.stderr
    logs = [path for path in cluster.executor_logs if path not in others]
    workers = {path.relative_to(cluster.folder).parts[0] for path in logs}
    files = [path for path in (*logs, *events.rglob("*")) if path.is_file()]
    printed = [path.read_text(errors="replace") for path in files]
    answers: list[dict[str, int]] = json.loads(driver.stdout.splitlines()[-1])
    return Finished(answers, local, remote, workers, [driver.stdout, driver.stderr, *printed])


class TestJob:
    def test_answers_as_on_one_machine(self, finished: Finished) -> None:
        assert finished.answers == [EXPECTED, EXPECTED]

    def test_runs_on_both_workers(self, finished: Finished) -> None:
        assert finished.workers == {f"worker{number}" for number in range(WORKERS)}

    def test_leaves_logs_that_others_read(self, finished: Finished) -> None:
        local = rows(finished.local)
        remote = rows(finished.remote.uri, options=finished.remote.options)

        assert sum(map(len, local.values())) == sum(map(len, remote.values())) == RECORDS + FEW


class TestSecrets:
    def test_reach_the_workers_unseen(self, finished: Finished) -> None:
        """The keys stand in no log, no plan and no event; what is there shows that we looked."""
        settings = finished.remote.options

        assert any("MapInArrow" in text for text in finished.printed)
        assert any("SparkListenerSQLExecutionStart" in text for text in finished.printed)
        for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
            assert not any(settings[name] in text for text in finished.printed)
