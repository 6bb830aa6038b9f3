"""Prometheus metrics: requests by API, latency, bytes, connections, commits and conflicts."""

from collections import Counter as Tally
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sparklog.service.metrics import Latencies, committed
from sparklog.wire.protocol.versions import ApiKey

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway

_LABELS: Final = {api_key: (api_key.name,) for api_key in ApiKey}


class Metrics:
    """The counters of one instance, in a registry of their own."""

    def __init__(self, gateway: "Gateway") -> None:
        self.registry = CollectorRegistry()
        self._gateway = gateway
        self._seconds = Latencies(
            "sparklog_gateway_request_seconds",
            "From a request to its answer, by API; a fetch waits for records",
            ("api",),
        )
        self._closed: Tally[str] = Tally()
        self.in_bytes = 0
        self.out_bytes = 0
        self.throttle_ms = 0
        """The throttle times of all produce requests."""
        self.registry.register(self)

    def answered(self, api_key: ApiKey, seconds: float) -> None:
        """Note a request that was answered."""
        self._seconds.note(_LABELS[api_key], seconds)

    def closed(self, why: str) -> None:
        """Note a connection that the gateway closed."""
        self._closed[why] += 1

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        gateway = self._gateway
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
        yield GaugeMetricFamily(
            "sparklog_gateway_housekeeper_lag_seconds",
            "Since the housekeeper's last round over all topics; 0 while none is needed",
            gateway.housekeeper.lag_ms / 1000,
        )
        yield CounterMetricFamily(
            "sparklog_gateway_throttle_seconds",
            "Throttle times of produce requests",
            self.throttle_ms / 1000,
        )
        yield from committed(gateway.appends.counts)
        yield from self._requests()

    def _requests(self) -> Iterable[Metric]:
        yield self._seconds.metric()
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
