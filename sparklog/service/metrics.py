"""Prometheus metrics that services share: plain numbers, turned into metrics at a scrape.

Only the event loop changes them, so they need no locks. The locks of prometheus_client would take
longer than all other work around a request.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of Prometheus' text format."""
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
"""The upper bounds of a histogram's buckets."""


class Counts(Protocol):
    """The commits of a service since its start: numbers that only grow."""

    records: int
    commits: int
    conflicts: int


def committed(counts: Counts) -> Iterable[Metric]:
    """Yield records, commits and conflicts."""
    yield CounterMetricFamily("sparklog_produced_records", "Records acknowledged", counts.records)
    yield CounterMetricFamily("sparklog_commits", "Commits of groups of requests", counts.commits)
    yield CounterMetricFamily(
        "sparklog_commit_conflicts",
        "Times that a commit was planned again because another came first",
        counts.conflicts,
    )


class Latencies:
    """A histogram of durations (s), one for each combination of label values."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self._name = name
        self._about = about
        self._labels = labels
        self._buckets: dict[Sequence[str], list[int]] = {}
        self._seconds: dict[Sequence[str], float] = {}

    def note(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count one request with these label values, which took `seconds`."""
        buckets = self._buckets.get(labels)
        if buckets is None:
            buckets = self._buckets[labels] = [0] * (len(SECONDS) + 1)
            self._seconds[labels] = 0.0
        buckets[bisect_left(SECONDS, seconds)] += 1
        self._seconds[labels] += seconds

    def metric(self) -> Metric:
        """Return the metric for Prometheus: cumulative buckets, and the sum."""
        found = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        bounds = [*map(str, SECONDS), "+Inf"]
        for labels, buckets in self._buckets.items():
            reached = list(zip(bounds, accumulate(buckets), strict=True))
            found.add_metric(labels, reached, self._seconds[labels])
        return found
