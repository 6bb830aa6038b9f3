"""The only door to the JVM: a session, produce and consume."""

from sparklog.spark.consume import consume
from sparklog.spark.datasource import register
from sparklog.spark.produce import produce
from sparklog.spark.session import session
from sparklog.spark.write_job import ProduceResult

__all__ = ["ProduceResult", "consume", "produce", "register", "session"]
