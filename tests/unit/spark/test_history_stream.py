"""Where the stream of a table has ended, by the checkpoint that Spark keeps of it; its options."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from sparklog.errors import InvalidOptionError, SparklogWarning, UsageError
from sparklog.spark import stream_history
from sparklog.spark.lake.history_stream import checked_options, checked_writer, version_read
from sparklog.storage import Files, open_files


def checkpoint(
    folder: Path, offsets: Sequence[tuple[int, int]] = (), commits: Sequence[int] = ()
) -> Files:
    """A checkpoint of Delta's stream; an offset is a version and an index within it."""
    kept = open_files(str(folder))
    for number, (version, index) in enumerate(offsets):
        told = json.dumps({"reservoirVersion": version, "index": index})
        kept.put_new(f"table/offsets/{number}", f"v1\n{{}}\n{told}".encode())
        kept.put_new(f"table/offsets/.{number}.crc", b"")
    for number in commits:
        kept.put_new(f"table/commits/{number}", b"v1\n{}")
    return kept


class TestVersionRead:
    def test_is_before_the_version_at_which_the_query_has_ended(self, tmp_path: Path) -> None:
        kept = checkpoint(tmp_path, [(3, 999), (5, -100)], [0, 1])

        assert version_read(kept, has_files=True) == 4

    def test_is_none_of_a_table_without_files(self, tmp_path: Path) -> None:
        assert version_read(checkpoint(tmp_path), has_files=False) is None

    @pytest.mark.parametrize(
        ("offsets", "commits"),
        [([], []), ([(5, -100)], []), ([(3, 999), (5, -100)], [0]), ([(3, 999)], [0])],
        ids=["before a batch", "in the first batch", "in the last batch", "between two batches"],
    )
    def test_of_a_query_that_was_stopped_is_refused(
        self, tmp_path: Path, offsets: list[tuple[int, int]], commits: list[int]
    ) -> None:
        kept = checkpoint(tmp_path, offsets, commits)

        with pytest.raises(UsageError, match="was stopped before its end"):
            version_read(kept, has_files=True)


class TestOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("startingTimestamp", 0),
            ("startingoffsets", "latest"),
            ("subscribePattern", "."),
            ("columns", "value"),
            ("endingTimestamp", 0),
            ("endingOffsets", "latest"),
            ("endingOffsetsByTimestamp", '{"t": {"0": 1}}'),
            ("versionAsOf", 1),
            ("timestampAsOf", "2026-01-01"),
        ],
    )
    def test_for_its_topic_columns_start_or_end_are_refused(self, name: str, value: object) -> None:
        """With a starting time the log would begin elsewhere than at the end of the table."""
        spark: Any = None  # they are refused before anything is read
        options = {name: value}

        with pytest.raises(InvalidOptionError, match=f"(?i)option {name} is not allowed here"):
            stream_history(spark, "log", "t", lambda _: pytest.fail("written"), "c", **options)

    def test_without_a_meaning_are_left_out(self) -> None:
        options = {"kafka.client.id": "x", "kafka.isolation.level": "read_committed"}

        with pytest.warns(SparklogWarning, match="option kafka.client.id has no meaning"):
            kept, settings = checked_options({**options, "storage.X": "y"})
        assert kept == {"isolation.level": "read_committed", "storage.X": "y"}
        assert settings == {"X": "y"}


def test_what_is_no_writer_is_refused() -> None:
    nothing: Any = None
    with pytest.raises(UsageError, match=r"write returned None.*leave start\(\) to stream_history"):
        checked_writer(nothing)


def test_a_query_that_is_started_is_stopped() -> None:
    """Goal: its rows do not come again with the next call."""
    query = create_autospec(StreamingQuery, instance=True)
    with pytest.raises(UsageError, match="write returned"):
        checked_writer(query)
    query.stop.assert_called_once_with()
