"""The data source `sparklog`: a log dir read as a DataFrame."""

import json
from dataclasses import asdict
from typing import Any, Final
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from sparklog.config.options import CONSUME_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError, SchemaError
from sparklog.spark.plan import ReadRange
from sparklog.spark.reader import RangeReader
from sparklog.spark.schema import output_schema
from sparklog.storage import open_files

PATH: Final = "path"
RANGES: Final = "sparklog.ranges"
"""Internal: the ranges that `consume` has planned, as JSON."""

_REGISTERED: Final[WeakSet[SparkSession]] = WeakSet()


class SparklogDataSource(DataSource):
    """Reads topics of a log dir (`load(log_dir)`); options as Spark's Kafka source has them.

    Name: `sparklog`. Options: sparklog.config.options.CONSUME_OPTIONS, and storage.<NAME>.
    """

    @classmethod
    def name(cls) -> str:
        """Return what `format(…)` takes."""
        return "sparklog"

    def __init__(self, options: dict[str, str]) -> None:
        given: dict[str, str] = {name.lower(): value for name, value in options.items()}
        log_dir = given.pop(PATH, None)
        if not log_dir:
            raise InvalidOptionError("no log dir: give it to load(…)", option=PATH)
        self.log_dir: str = log_dir
        self.planned = decode_ranges(given.pop(RANGES, None))
        self.parsed, self.storage = parse_options(CONSUME_OPTIONS, given)

    def schema(self) -> StructType:
        """Return the Kafka source's columns."""
        return output_schema(include_headers=self.parsed["includeHeaders"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of what the options ask for. Raises SchemaError for a schema given."""
        if schema != self.schema():
            raise SchemaError(
                f"the source has a fixed schema, so schema(…) cannot be given: it is "
                f"{self.schema().simpleString()}"
            )
        return RangeReader(open_files(self.log_dir, self.storage), self.parsed, self.planned)


def encode_ranges(ranges: list[ReadRange]) -> str:
    """Return ranges as the text of an option."""
    return json.dumps([asdict(one) for one in ranges])


def decode_ranges(text: str | None) -> list[ReadRange] | None:
    """Return the ranges of an option's text, None without it."""
    if text is None:
        return None
    rows: list[dict[str, Any]] = json.loads(text)
    return [ReadRange(**row) for row in rows]


def register(spark: SparkSession) -> None:
    """Make `format("sparklog")` known to a session; Spark would warn of a second time."""
    if spark not in _REGISTERED:
        spark.dataSource.register(SparklogDataSource)
        _REGISTERED.add(spark)
