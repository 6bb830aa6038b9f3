"""The data source without Spark: options that it refuses, and those that have no effect."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sparklog.errors import InvalidOptionError, SchemaError, SparklogWarning
from sparklog.spark.datasource import SparklogDataSource
from sparklog.spark.lake.table_options import with_options
from sparklog.spark.reading.batch_reader import BatchReader
from sparklog.spark.schema import output_schema


@pytest.mark.parametrize(
    "step",
    [
        lambda reader: reader.initialOffset(),
        lambda reader: reader.latestOffset({}, ReadAllAvailable()),
        lambda reader: reader.partitions({}, {}),
        lambda reader: reader.read(InputPartition(0)),
    ],
)
def test_a_stream_tells_in_its_first_step(step: Callable[[Any], Any]) -> None:
    """PySpark's runner loses an error of the source itself behind one of its own."""
    source = SparklogDataSource({"path": "log", "subscribe": "t", "endingoffsets": "latest"})
    reader = source.streamReader(source.schema())

    with pytest.raises(InvalidOptionError, match="endingOffsets is not allowed in a stream"):
        step(reader)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"versionasof": "1"}, "versionAsOf is not allowed in a stream"),
        ({"timestampasof": "1"}, "timestampAsOf is not allowed in a stream"),
        ({"startingoffsets": "nonsense"}, "'nonsense' is no JSON"),
        ({"startingoffsets": "committed"}, "committed needs the option groupId"),
    ],
)
def test_a_stream_refuses_options_also_after_a_restart(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    """Then Spark takes the start from the checkpoint."""
    source = SparklogDataSource({"path": str(tmp_path), "subscribe": "t", **options})
    reader = source.streamReader(source.schema())

    with pytest.raises(InvalidOptionError, match=told):
        reader.latestOffset({}, ReadAllAvailable())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"maxtriggerdelay": "15m"}, "maxTriggerDelay is for streams, a batch read ignores it"),
        ({"minoffsetspertrigger": "5"}, "minOffsetsPerTrigger is for streams"),
        ({"groupid": "g"}, "groupId is for startingOffsets=committed and for streams"),
        ({"auto.offset.reset": "none"}, "auto.offset.reset is for startingOffsets=committed"),
    ],
)
def test_a_batch_warns_of_options_without_effect(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    source = SparklogDataSource({"path": str(tmp_path), "subscribe": "t", **options})

    with pytest.warns(SparklogWarning, match=told):
        source.reader(source.schema())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{}, {"startingoffsets": "committed", "groupid": "g"}])
def test_a_batch_does_not_warn_of_others(tmp_path: Path, options: dict[str, str]) -> None:
    source = SparklogDataSource({"path": str(tmp_path), "subscribe": "t", **options})
    assert isinstance(source.reader(source.schema()), BatchReader)


def test_a_stream_is_not_written_where_its_rows_come_from() -> None:
    """They have the options of the table that is read."""
    table = with_options(output_schema(), {"path": "log", "subscribe": "t", "topic": "t"})

    with pytest.raises(InvalidOptionError, match=r"toTable is not allowed"):
        SparklogDataSource({}).streamWriter(table, overwrite=False)


def test_a_table_with_columns_of_its_own_is_not_read(tmp_path: Path) -> None:
    """The table of saveAsTable has the columns of the DataFrame."""
    source = SparklogDataSource({"path": str(tmp_path), "subscribe": "t"})

    with pytest.raises(SchemaError, match=r"other columns \(by saveAsTable or ALTER TABLE, for"):
        source.reader(output_schema(["key", "value"]))
