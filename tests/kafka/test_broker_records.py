"""Records that a broker wrote decode to what was produced."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparklog.model import TimestampType
from sparklog.record.decode import decode
from sparklog.record.scan import scan_batches
from tests.kafka.client import Record
from tests.kafka.conftest import Written
from tests.kafka.dump import SegmentFiles
from tests.kafka.scenarios import CODECS, Given

pytestmark = pytest.mark.kafka

CODED = [
    *(f"plain-{codec}" for codec in CODECS),
    *(f"recompressed-{codec}" for codec in CODECS[1:]),
]
TOPICS = (*CODED, "idempotent", "transactional", "compacted")


def decoded(segments: Sequence[SegmentFiles]) -> list[tuple[int, Record]]:
    """(offset, record) of every record of a partition."""
    return [pair for files in segments for pair in _rows(files)]


def _rows(files: SegmentFiles) -> list[tuple[int, Record]]:
    data = files.log.read_bytes()
    found = decode(data, scan_batches(data).batches)
    columns = (found.offset, found.key, found.value, found.timestamp, found.headers)
    rows = [listed(column) for column in columns]
    return [
        (offset, Record(key, value, timestamp, _headers(headers)))
        for offset, key, value, timestamp, headers in zip(*rows, strict=True)
    ]


def listed(column: Any) -> list[Any]:
    """The values of a column that was asked for."""
    assert column is not None
    values: list[Any] = column.to_pylist()
    return values


def _headers(pairs: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((pair["key"], pair["value"]) for pair in pairs or ())


def produced(given: Given) -> list[tuple[int, Record]]:
    """(offset, record) as the producer was told; markers are no records."""
    pairs = zip(given.offsets, given.entries, strict=True)
    return [(offset, entry) for offset, entry in pairs if isinstance(entry, Record)]


class TestDecode:
    @pytest.mark.parametrize("topic", TOPICS)
    def test_gives_back_what_was_produced(self, topic: str, written: Written) -> None:
        assert decoded(written.broker.segments(topic)) == produced(written.given[topic])

    def test_gives_the_brokers_time_where_the_topic_wants_it(self, written: Written) -> None:
        given = produced(written.given["log-append-time"])
        (files,) = written.broker.segments("log-append-time")
        data = files.log.read_bytes()
        batches = scan_batches(data).batches

        found = decode(data, batches)
        times = np.repeat(batches.max_timestamp, batches.record_count)
        assert listed(found.timestamp) == times.tolist()
        assert set(listed(found.timestamp_type)) == {TimestampType.LOG_APPEND_TIME}
        assert listed(found.value) == [record.value for _, record in given]

    def test_leaves_the_offsets_of_markers_out(self, written: Written) -> None:
        offsets = [offset for offset, _ in decoded(written.broker.segments("transactional"))]

        assert set(range(offsets[-1] + 1)) - set(offsets) == {10, 21, 32}
