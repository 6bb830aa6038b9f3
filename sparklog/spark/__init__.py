"""The only door to the JVM: a session, produce and consume."""

from sparklog.spark.consume import consume
from sparklog.spark.datasource import register
from sparklog.spark.produce import ProduceResult, produce
from sparklog.spark.session import session

__all__ = ["ProduceResult", "consume", "produce", "register", "session"]
