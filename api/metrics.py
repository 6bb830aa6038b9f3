"""What Prometheus scrapes: requests, latency, bytes, manifest age, commits and conflicts."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Metrics:
    """The counters of one instance, in a registry of their own."""

    def __init__(self, manifest_ages_ms: Callable[[], dict[str, int]]) -> None:
        self.registry = CollectorRegistry()
        self._manifest_ages_ms = manifest_ages_ms
        self._requests = Counter(
            "sparklog_requests", "Requests", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "sparklog_request_seconds",
            "From the headers of a request to the end of its answer",
            ["method", "route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._bytes = Counter(
            "sparklog_bytes", "Bytes of bodies", ["direction"], registry=self.registry
        )
        self.in_progress = Gauge(
            "sparklog_requests_in_progress", "Requests being answered", registry=self.registry
        )
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._in = self._bytes.labels("in")
        self._out = self._bytes.labels("out")
        self.records = Counter(
            "sparklog_produced_records", "Records acknowledged", registry=self.registry
        )
        self.commits = Counter(
            "sparklog_commits", "Commits of groups of requests", registry=self.registry
        )
        self.conflicts = Counter(
            "sparklog_commit_conflicts",
            "Times that a commit was planned again because another came first",
            registry=self.registry,
        )
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the gauges that are read when somebody asks."""
        age = GaugeMetricFamily(
            "sparklog_manifest_age_seconds",
            "Since a topic's manifest was last seen to be the newest",
            labels=["topic"],
        )
        for topic, age_ms in self._manifest_ages_ms().items():
            age.add_metric([topic], age_ms / 1000)
        yield age

    def count(
        self, method: str, route: str, status: int, seconds: float, sizes: tuple[int, int]
    ) -> None:
        """Note a request that was answered; `sizes` are the bytes of the bodies in and out."""
        place = method, route, status
        children = self._children.get(place)
        if children is None:
            children = self._requests.labels(*place), self._seconds.labels(method, route)
            self._children[place] = children
        children[0].inc()
        children[1].observe(seconds)
        self._in.inc(sizes[0])
        self._out.inc(sizes[1])

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)
