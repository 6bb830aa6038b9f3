"""Prometheus metrics: requests by API, latency, bytes, connections, commits and conflicts."""

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from sparklog.wire.versions import ApiKey

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Metrics:
    """The counters of one instance, in a registry of their own.

    Plain numbers, counted by the event loop alone: the locks of prometheus_client take longer.
    """

    def __init__(self, gateway: "Gateway") -> None:
        self.registry = CollectorRegistry()
        self._gateway = gateway
        self._buckets: dict[int, list[int]] = {}
        self._seconds: dict[int, float] = defaultdict(float)
        self._closed: Tally[str] = Tally()
        self.in_bytes = 0
        self.out_bytes = 0
        self.registry.register(self)

    def answered(self, api_key: int, seconds: float) -> None:
        """Note a request that was answered."""
        buckets = self._buckets.get(api_key)
        if buckets is None:
            buckets = self._buckets[api_key] = [0] * (len(SECONDS) + 1)
        buckets[bisect_left(SECONDS, seconds)] += 1
        self._seconds[api_key] += seconds

    def closed(self, why: str) -> None:
        """Note a connection that the gateway closed."""
        self._closed[why] += 1

    def collect(self) -> Iterable[Metric]:
        """Yield the numbers."""
        gateway, done = self._gateway, self._gateway.appends.counts
        yield GaugeMetricFamily(
            "sparklog_gateway_connections", "Connections", gateway.limits.connections
        )
        yield GaugeMetricFamily(
            "sparklog_gateway_requests_in_progress_bytes",
            "Bytes of requests that are read or in progress",
            gateway.limits.request_bytes,
        )
        yield GaugeMetricFamily(
            "sparklog_gateway_instances", "Instances alive", len(gateway.instances.alive)
        )
        yield CounterMetricFamily("sparklog_produced_records", "Records acknowledged", done.records)
        yield CounterMetricFamily("sparklog_commits", "Commits of groups of requests", done.commits)
        yield CounterMetricFamily(
            "sparklog_commit_conflicts",
            "Times that a commit was planned again because another came first",
            done.conflicts,
        )
        yield from self._requests()

    def _requests(self) -> Iterable[Metric]:
        seconds = HistogramMetricFamily(
            "sparklog_gateway_request_seconds",
            "From a request to its answer, by API; a fetch waits for records",
            labels=["api"],
        )
        bounds = [*map(str, SECONDS), "+Inf"]
        for api_key, buckets in self._buckets.items():
            reached = list(zip(bounds, accumulate(buckets), strict=True))
            seconds.add_metric([ApiKey(api_key).name], reached, self._seconds[api_key])
        yield seconds
        sizes = CounterMetricFamily(
            "sparklog_gateway_bytes", "Bytes of requests and answers", labels=["direction"]
        )
        sizes.add_metric(["in"], self.in_bytes)
        sizes.add_metric(["out"], self.out_bytes)
        yield sizes
        closed = CounterMetricFamily(
            "sparklog_gateway_connections_closed",
            "Connections that the gateway closed, by the reason",
            labels=["reason"],
        )
        for why, number in self._closed.items():
            closed.add_metric([why], number)
        yield closed

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)
