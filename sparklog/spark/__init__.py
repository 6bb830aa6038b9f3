"""The only door to the JVM: a session, produce, consume, tables of topics, columns of values.

`datasource` is `format("sparklog")`. `reading/` and `writing/` are the tasks and their plans,
`lake/` the tables of topics, `jobs/` the scheduled jobs.

Importing it loads PySpark and little else. The first call that needs pyarrow, the metadata log or
the kernels loads them, because Spark starts many Python processes.
"""

from sparklog.spark.commit_group import commit_group, ends
from sparklog.spark.consume import consume
from sparklog.spark.datasource import register
from sparklog.spark.decode import decode
from sparklog.spark.lake.tables import create_table, stream_history
from sparklog.spark.newest import latest
from sparklog.spark.produce import produce
from sparklog.spark.produce_all import produce_all
from sparklog.spark.session import session
from sparklog.spark.upsert import upsert_table
from sparklog.spark.writing.produce_result import ProduceResult

__all__ = [
    "ProduceResult",
    "commit_group",
    "consume",
    "create_table",
    "decode",
    "ends",
    "latest",
    "produce",
    "produce_all",
    "register",
    "session",
    "stream_history",
    "upsert_table",
]
