"""The newest record of each key: latest(), and the reduction that upsert_table() uses."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

from sparklog.config.options import COLUMNS
from sparklog.model import READ_COMMITTED
from sparklog.spark.consume import consume
from sparklog.spark.schema import output_columns

KEY = ("partition", "key")
"""A key in two partitions counts twice: a producer may choose partitions, a topic may get more."""

NEEDED = (*KEY, "offset", "value")
"""The columns that decide which record is the newest of its key."""

_ISOLATION: Final = ("isolation.level", "isolation_level", "kafka.isolation.level")
"""The spellings of one option."""


def latest(
    spark: SparkSession, log_dir: str | PathLike[str], topic: str, **options: Any
) -> DataFrame:
    """Return the newest record of each (partition, key), in no order.

    A key whose newest record is a tombstone (its value is null) is left out, and so are records
    without a key. Options are those of `consume`, but `isolation.level` is read_committed unless
    given: a record of an aborted transaction is never the newest of its key. Columns are those of
    `consume`. Offsets are settled now. Raises what `consume` raises.
    """
    given = committed_unless_given(options)
    wanted = _columns(given)
    if wanted is not None:
        given["columns"] = ",".join(dict.fromkeys((*wanted, *NEEDED)))
    records = consume(spark, log_dir, subscribe=topic, **given)
    found = newest(records).where(F.col("value").isNotNull())
    return found if wanted is None else found.select(*wanted)


def committed_unless_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with isolation.level=read_committed, unless they have it in any spelling."""
    given = {name.lower() for name, value in options.items() if value is not None}
    return dict(options) if given & {*_ISOLATION} else {**options, _ISOLATION[0]: READ_COMMITTED}


def _columns(given: dict[str, Any]) -> list[str] | None:
    """Take the option `columns` out of `given`; return the columns, None without the option."""
    names = [name for name in given if name.lower() == COLUMNS.name]
    values = [given.pop(name) for name in names]
    if not values or values[-1] is None:
        return None
    return output_columns({"columns": COLUMNS.parse(values[-1]), "includeHeaders": False})


def newest(records: DataFrame) -> DataFrame:
    """Return the record of the greatest offset of each (partition, key), tombstones too."""
    row = F.struct(*records.columns)
    keyed = records.where(F.col("key").isNotNull())
    return keyed.groupBy(*KEY).agg(F.max_by(row, "offset").alias("row")).select("row.*")
