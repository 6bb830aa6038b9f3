"""Found by Spark itself, so that `format("sparklog")` needs no registration."""

from sparklog.spark.datasource import SparklogDataSource as DefaultSource

__all__ = ["DefaultSource"]
