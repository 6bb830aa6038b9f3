"""deploy/grafana/services.yml: a running scheduler or gateway tells its metrics and labels."""

import re
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
    """Else its first failure is no increase, and a job that always fails has no last success."""
    jobs = JobMetrics()
    jobs.expect(("compact", "log"), 5_000)
    by = {"job": "compact", "log_dir": "log"}

    assert jobs.registry.get_sample_value("sparklog_job_failures_total", by) == 0
    last = "sparklog_job_last_success_timestamp_seconds"
    assert jobs.registry.get_sample_value(last, by) == 5


@pytest.mark.parametrize("rule", RULES.split("- alert:")[1:])
def test_metrics_and_labels_are_there(told: dict[str, set[str]], rule: str) -> None:
    [metric] = METRIC.findall(rule)
    assert {one for pair in LABEL.findall(rule) for one in pair if one} <= told[metric]


def test_of_several_schedulers_one_success_is_enough() -> None:
    """They share a timetable: of the jobs with long intervals one scheduler may do every run."""
    by_all = r"time\(\) - max by \(exported_job, log_dir\)\s+\(sparklog_job_last_success"
    assert len(re.findall(by_all, RULES)) == RULES.count("sparklog_job_last_success")
