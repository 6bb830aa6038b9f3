"""deploy/grafana/services.yml: a running scheduler or gateway tells its metrics and labels."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sparklog.maintenance.runner import FAILED
from sparklog.spark.jobs.scheduler_metrics import JobMetrics
from tests.wire.gateways import RunningGateway

RULES = (Path(__file__).parents[2] / "deploy" / "grafana" / "services.yml").read_text()
METRIC = re.compile(r"\bsparklog_(?:job|gateway)_\w+")
LABEL = re.compile(r"\$labels\.(\w+)|\{(\w+)!=|by \((\w+), (\w+)\)")
OVER_ALL = re.compile(r"(max|min) by \([^)]*\)\s+\(\1_over_time\((\w+)")
BY = {"job": "compact", "log_dir": "log"}
PROMETHEUS_ADDS = {"instance"}


@pytest.fixture
def told(running: RunningGateway) -> dict[str, set[str]]:
    """The labels of each metric; Prometheus renames a label `job`."""
    jobs = JobMetrics()
    jobs.expect(("retention", "log"), 0)
    for code in (0, FAILED):
        jobs.ended(("retention", "log"), code, 0, 1)
    text = generate_latest(jobs.registry) + running.server.gateway.metrics.text()
    return {
        one.name: {name.replace("job", "exported_job") for name in one.labels} | PROMETHEUS_ADDS
        for family in text_string_to_metric_families(text.decode())
        for one in family.samples
    }


def test_a_job_is_told_before_its_first_run() -> None:
    """Else its first failure is no increase, and nothing is told of a job that always fails."""
    jobs = JobMetrics()
    jobs.expect(("compact", "log"), 5_000)

    assert jobs.registry.get_sample_value("sparklog_job_failures_total", BY) == 0
    assert since([jobs]) == 5


@pytest.mark.parametrize("rule", RULES.split("- alert:")[1:])
def test_metrics_and_labels_are_there(told: dict[str, set[str]], rule: str) -> None:
    used = {one for pair in LABEL.findall(rule) for one in pair if one}
    metrics = METRIC.findall(rule)
    assert metrics
    assert [metric for metric in metrics if not used <= told[metric]] == []


def since(schedulers: Iterable[JobMetrics]) -> float:
    """From when the alert counts, over what these schedulers told: max … or min …, as in the rule.

    A scheduler that was started again is one more: Prometheus keeps what the first one told.
    """
    registries = [jobs.registry for jobs in schedulers]
    told = (
        (among, [one.get_sample_value(metric, BY) for one in registries])
        for among, metric in OVER_ALL.findall(RULES)
    )
    known = ((among, [one for one in values if one is not None]) for among, values in told)
    among, values = next(one for one in known if one[1])
    return {"max": max, "min": min}[among](values)


def scheduler(start_s: int, *, success_s: int | None = None) -> JobMetrics:
    jobs = JobMetrics()
    jobs.expect(("compact", "log"), start_s * 1000)
    code, end_s = (FAILED, start_s) if success_s is None else (0, success_s)
    jobs.ended(("compact", "log"), code, 0, end_s * 1000)
    return jobs


class TestJobDoesNotSucceed:
    def test_looks_further_back_than_its_bound(self) -> None:
        """Else a restart hides what is older than the window, and the alert never fires."""
        rule = RULES.split("- alert: JobDoesNotSucceed")[1].split("- alert:")[0]
        [bound_s] = map(int, re.findall(r"> (\d+)", rule))
        assert min(int(hours) * 3600 for hours in re.findall(r"\[(\d+)h\]", rule)) > bound_s

    def test_of_several_schedulers_the_newest_success_counts(self) -> None:
        """They share a timetable: of the jobs with long intervals one may do every run."""
        assert since([scheduler(1, success_s=50), scheduler(2, success_s=70), scheduler(3)]) == 70

    def test_a_start_is_no_success(self) -> None:
        assert since([scheduler(1, success_s=50), scheduler(90)]) == 50

    def test_without_a_success_the_first_start_counts(self) -> None:
        assert since([scheduler(30), scheduler(60), scheduler(90)]) == 30
