"""The data source without Spark: how it refuses options that only a stream shows to be wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sparklog.errors import InvalidOptionError
from sparklog.spark.datasource import SparklogDataSource


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
