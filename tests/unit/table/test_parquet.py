"""Files of a table: row groups, statistics, ranges; read back in streams."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklog.config.times import iso_ms
from sparklog.errors import CorruptMetadataError
from sparklog.storage.memory import MemoryFiles
from sparklog.table import parquet
from sparklog.table.footer import opened, ranges_of
from sparklog.table.parquet import WrittenFile, write_files
from sparklog.table.schema import ARROW_SCHEMA

DIRECTORY = "t/table"


def batch(partition: int, offsets: Sequence[int], times: Sequence[int] = ()) -> pa.RecordBatch:
    """Records with these offsets; times are milliseconds."""
    count = len(offsets)
    columns = {
        "partition": [partition] * count,
        "offset": list(offsets),
        "timestamp": [1000 * one for one in times or [0] * count],
        "timestampType": [0] * count,
        "key": [None] * count,
        "value": [b"v" * 100] * count,
        "headers": [[{"key": "h", "value": None}]] * count,
        "topic": ["t"] * count,
    }
    arrays = [pa.array(columns[field.name], field.type) for field in ARROW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def written(files: MemoryFiles, *batches: pa.RecordBatch) -> list[WrittenFile]:
    return write_files(files, DIRECTORY, batches, now_ms=7)


def reopened(files: MemoryFiles, one: WrittenFile) -> pq.ParquetFile:
    return opened(files, f"{DIRECTORY}/{one.path}")


class TestFiles:
    def test_hold_the_rows(self) -> None:
        files = MemoryFiles()
        (one,) = written(files, batch(0, [1, 2]), batch(1, [0]))

        assert reopened(files, one).read().cast(ARROW_SCHEMA).to_batches() == [
            pa.concat_batches([batch(0, [1, 2]), batch(1, [0])])
        ]
        reopened(files, one).close(force=True)
        assert (one.rows, one.bytes) == (3, files.stat(f"{DIRECTORY}/{one.path}").bytes)  # type: ignore[union-attr] # it is there

    def test_are_none_without_rows(self) -> None:
        assert written(MemoryFiles()) == []

    def test_have_row_groups_and_sizes_that_are_bounded(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 2)
        monkeypatch.setattr(parquet, "FILE_BYTES", 2000)
        files = MemoryFiles()
        batches = [batch(0, [2 * number, 2 * number + 1]) for number in range(20)]
        several = written(files, *batches)

        assert len(several) > 1
        assert sum(one.rows for one in several) == 40
        assert reopened(files, several[0]).metadata.row_group(0).num_rows == 2

    def test_a_record_may_be_larger_than_a_row_group(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 10)
        (one,) = written(MemoryFiles(), batch(0, [0]), batch(0, [1]))

        assert one.rows == 2

    @pytest.mark.parametrize("group_rows", [1, 100])
    def test_are_dropped_when_a_record_cannot_be_read(
        self, monkeypatch: pytest.MonkeyPatch, group_rows: int
    ) -> None:
        monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", group_rows)
        files = MemoryFiles()

        def damaged() -> Any:
            yield batch(0, [0])
            raise CorruptMetadataError("damaged")

        with pytest.raises(CorruptMetadataError, match="damaged"):
            write_files(files, DIRECTORY, damaged(), now_ms=7)
        assert [*files.list(DIRECTORY)] == []

    def test_that_are_no_parquet_are_told(self) -> None:
        files = MemoryFiles()
        files.write_new("x.parquet", b"nothing")

        with pytest.raises(CorruptMetadataError, match="x.parquet: no sound Parquet file"):
            opened(files, "x.parquet")

    def test_of_spark_have_any_time(self) -> None:
        """Spark's OPTIMIZE writes INT96, which pyarrow takes for nanoseconds unless told."""
        files = MemoryFiles()
        year_10000 = pa.Table.from_batches([batch(0, [0], [253_402_300_800_000])])
        sink = pa.BufferOutputStream()
        pq.write_table(year_10000, sink, use_deprecated_int96_timestamps=True)
        files.write_new("x.parquet", sink.getvalue().to_pybytes())

        assert opened(files, "x.parquet").read().cast(ARROW_SCHEMA) == year_10000


class TestStatistics:
    def test_are_those_of_delta(self) -> None:
        (one,) = written(MemoryFiles(), batch(1, [5, 9], [-1, 1_372_939_200_123]))
        told = json.loads(one.add(now_ms=8)["add"]["stats"])

        assert told["numRecords"] == 2
        assert told["minValues"] == {
            "partition": 1,
            "offset": 5,
            "timestampType": 0,
            "timestamp": "1969-12-31T23:59:59.999Z",
        }
        assert told["maxValues"]["timestamp"] == "2013-07-04T12:00:00.123Z"
        assert set(told["nullCount"].values()) == {0}

    @pytest.mark.parametrize("time", [2**52, -(2**52)])
    def test_leave_out_times_without_a_text(self, time: int) -> None:
        (one,) = written(MemoryFiles(), batch(0, [0, 1], [0, time]))

        assert "timestamp" not in one.statistics["minValues"] | one.statistics["maxValues"]

    @pytest.mark.parametrize("text", ["2013-07-04T12:00:00.123Z", "2013-07-04T12:00:00.123"])
    def test_times_are_read_back(self, text: str) -> None:
        when = datetime(2013, 7, 4, 12, 0, 0, 123_000, tzinfo=UTC)

        assert iso_ms(text) == int(when.timestamp() * 1000)

    @pytest.mark.parametrize("year", ["+160413", "-0001"])
    def test_times_of_other_years_are_not_known(self, year: str) -> None:
        """Spark's OPTIMIZE writes them."""
        assert iso_ms(f"{year}-09-10T08:53:20.000Z") is None

    def test_of_the_first_years_have_four_digits(self) -> None:
        (one,) = written(MemoryFiles(), batch(0, [0], [-62_135_596_800_000]))

        assert one.statistics["minValues"]["timestamp"] == "0001-01-01T00:00:00.000Z"


class TestRanges:
    def test_stand_in_the_footer(self) -> None:
        files = MemoryFiles()
        (one,) = written(files, batch(0, [1, 2]), batch(0, [3]), batch(7, [0]))

        assert ranges_of(reopened(files, one)) == {0: (1, 3), 7: (0, 0)}

    def test_are_read_where_another_engine_has_written(self) -> None:
        sink = pa.BufferOutputStream()
        table = pa.Table.from_batches([batch(3, [9, 4]), batch(0, [1]), batch(3, [5])])
        pq.write_table(table, sink)

        files = MemoryFiles()
        files.write_new("x.parquet", sink.getvalue().to_pybytes())
        found = ranges_of(opened(files, "x.parquet"))
        assert found == {3: (4, 9), 0: (1, 1)}
