"""The only door to the JVM: a session, produce and consume.

Importing it loads PySpark and little else: pyarrow, the metadata log and the kernels are loaded
where a call first needs them, for Spark starts many Python processes.
"""

from sparklog.spark.consume import consume
from sparklog.spark.datasource import register
from sparklog.spark.produce import produce
from sparklog.spark.produce_result import ProduceResult
from sparklog.spark.session import session

__all__ = ["ProduceResult", "consume", "produce", "register", "session"]
