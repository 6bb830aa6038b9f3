"""The scheduler's metrics for Prometheus; every figure by job and log dir.

sparklog_job_runs_total                      runs that ended
sparklog_job_failures_total                  runs of which a part failed
sparklog_job_duration_seconds                how long they took (histogram)
sparklog_job_last_success_timestamp_seconds  when the last one ended without a failure; before that
                                             there is no such figure
sparklog_job_scheduled_timestamp_seconds     since when this scheduler runs the job: its own start
sparklog_job_done_total                      what was done: `what` is bytes, segments, files, …
"""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from sparklog.maintenance.runner import FAILED, StepReport

_BY: Final = ("job", "log_dir")
_BUCKETS: Final = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)


class JobMetrics:
    """The figures of one scheduler."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._runs = Counter("sparklog_job_runs", "Runs that ended.", _BY, registry=self.registry)
        self._failures = Counter(
            "sparklog_job_failures", "Runs that failed in part.", _BY, registry=self.registry
        )
        self._durations = Histogram(
            "sparklog_job_duration_seconds",
            "How long runs took.",
            _BY,
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._last_success = Gauge(
            "sparklog_job_last_success_timestamp_seconds",
            "When the last run without a failure ended.",
            _BY,
            registry=self.registry,
        )
        self._scheduled = Gauge(
            "sparklog_job_scheduled_timestamp_seconds",
            "When the scheduler started.",
            _BY,
            registry=self.registry,
        )
        self._done = Counter(
            "sparklog_job_done", "What was done.", (*_BY, "what"), registry=self.registry
        )

    def serve(self, host: str, port: int) -> int:
        """Answer scrapes in a thread from now on; return the port, chosen freely when it is 0."""
        server, _ = start_http_server(port, host, self.registry)
        return server.server_port

    def expect(self, by: tuple[str, str], now_ms: int) -> None:
        """Tell of a job and its log dir before the first run: Prometheus counts from there on."""
        self._failures.labels(*by)
        self._scheduled.labels(*by).set(now_ms / 1000)

    def ended(self, by: tuple[str, str], code: int, duration_ms: int, ended_ms: int) -> None:
        """Count a run of (job, log dir) that ended with an exit code."""
        self._runs.labels(*by).inc()
        self._durations.labels(*by).observe(duration_ms / 1000)
        failures = self._failures.labels(*by)
        if code == FAILED:
            failures.inc()
        else:
            self._last_success.labels(*by).set(ended_ms / 1000)

    def done(self, by: tuple[str, str], reports: Iterable[StepReport]) -> None:
        """Add the counters of a run's steps."""
        for report in reports:
            counts = report.outcome.counts if report.outcome else {}
            for what, count in counts.items():
                self._done.labels(*by, what).inc(max(0, count))
