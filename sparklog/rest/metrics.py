"""Prometheus metrics: requests, latency, bytes, age of the metadata, commits and conflicts."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)

from sparklog.group_commit.share import Counts
from sparklog.service.metrics import Latencies, committed


class Metrics:
    """The counters of one instance, in a registry of their own."""

    def __init__(self, metadata_age_ms: Callable[[], int | None], committed: Counts) -> None:
        self.registry = CollectorRegistry()
        self._committed = committed
        self._metadata_age_ms = metadata_age_ms
        self._requests: Tally[tuple[str, str, int]] = Tally()
        self._seconds = Latencies(
            "sparklog_request_seconds",
            "From the headers of a request to the end of its answer",
            ("method", "route"),
        )
        self._bytes: Tally[str] = Tally()
        self.in_progress = 0
        self.bodies_bytes = 0
        """Bytes received so far of the bodies of all requests in progress."""
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics. prometheus_client calls it for each scrape."""
        yield GaugeMetricFamily(
            "sparklog_requests_in_progress", "Requests being answered", self.in_progress
        )
        yield GaugeMetricFamily(
            "sparklog_bodies_in_progress_bytes",
            "Bytes received of the bodies of requests being answered",
            self.bodies_bytes,
        )
        age_ms = self._metadata_age_ms()
        if age_ms is not None:
            yield GaugeMetricFamily(
                "sparklog_metadata_age_seconds",
                "Time since the metadata in memory was last known to be the newest",
                age_ms / 1000,
            )
        yield from committed(self._committed)
        yield from self._answered()

    def _answered(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "sparklog_requests", "Requests", labels=["method", "route", "status"]
        )
        for (method, route, status), number in self._requests.items():
            requests.add_metric([method, route, str(status)], number)
        yield requests
        yield self._seconds.metric()
        sizes = CounterMetricFamily("sparklog_bytes", "Bytes of bodies", labels=["direction"])
        for direction in ("in", "out"):
            sizes.add_metric([direction], self._bytes[direction])
        yield sizes

    def count(
        self, method: str, route: str, status: int, seconds: float, sizes: tuple[int, int]
    ) -> None:
        """Note a request that was answered; `sizes` are the bytes of the bodies in and out."""
        self._requests[method, route, status] += 1
        self._seconds.note((method, route), seconds)
        self._bytes["in"] += sizes[0]
        self._bytes["out"] += sizes[1]

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)
