"""Prometheus metrics: requests, latency, bytes, age of the metadata, commits and conflicts."""

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from sparklog.group_commit import Counts

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Metrics:
    """The counters of one instance, in a registry of their own.

    Only the event loop counts requests, in plain numbers: the locks of prometheus_client would take
    longer than all other work around a request.
    """

    def __init__(self, metadata_age_ms: Callable[[], int | None], committed: Counts) -> None:
        self.registry = CollectorRegistry()
        self._committed = committed
        self._metadata_age_ms = metadata_age_ms
        self._requests: Tally[tuple[str, str, int]] = Tally()
        self._buckets: dict[tuple[str, str], list[int]] = {}
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._bytes: Tally[str] = Tally()
        self.in_progress = 0
        self.bodies_bytes = 0
        """Of the requests in progress, as far as their bodies have come in."""
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the numbers that are made when somebody asks."""
        yield GaugeMetricFamily(
            "sparklog_requests_in_progress", "Requests being answered", self.in_progress
        )
        yield GaugeMetricFamily(
            "sparklog_bodies_in_progress_bytes",
            "Bytes that came in with the requests being answered",
            self.bodies_bytes,
        )
        age_ms = self._metadata_age_ms()
        if age_ms is not None:
            yield GaugeMetricFamily(
                "sparklog_metadata_age_seconds",
                "Since the metadata in memory was last seen to be the newest",
                age_ms / 1000,
            )
        done = self._committed
        yield CounterMetricFamily("sparklog_produced_records", "Records acknowledged", done.records)
        yield CounterMetricFamily("sparklog_commits", "Commits of groups of requests", done.commits)
        yield CounterMetricFamily(
            "sparklog_commit_conflicts",
            "Times that a commit was planned again because another came first",
            done.conflicts,
        )
        yield from self._answered()

    def _answered(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "sparklog_requests", "Requests", labels=["method", "route", "status"]
        )
        for (method, route, status), number in self._requests.items():
            requests.add_metric([method, route, str(status)], number)
        yield requests
        seconds = HistogramMetricFamily(
            "sparklog_request_seconds",
            "From the headers of a request to the end of its answer",
            labels=["method", "route"],
        )
        bounds = [*map(str, SECONDS), "+Inf"]
        for place, buckets in self._buckets.items():
            reached = list(zip(bounds, accumulate(buckets), strict=True))
            seconds.add_metric(place, reached, self._seconds[place])
        yield seconds
        sizes = CounterMetricFamily("sparklog_bytes", "Bytes of bodies", labels=["direction"])
        for direction in ("in", "out"):
            sizes.add_metric([direction], self._bytes[direction])
        yield sizes

    def count(
        self, method: str, route: str, status: int, seconds: float, sizes: tuple[int, int]
    ) -> None:
        """Note a request that was answered; `sizes` are the bytes of the bodies in and out."""
        place = method, route
        self._requests[method, route, status] += 1
        buckets = self._buckets.get(place)
        if buckets is None:
            buckets = self._buckets[place] = [0] * (len(SECONDS) + 1)
        buckets[bisect_left(SECONDS, seconds)] += 1
        self._seconds[place] += seconds
        self._bytes["in"] += sizes[0]
        self._bytes["out"] += sizes[1]

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)
