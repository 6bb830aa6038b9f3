"""The only door to the JVM: a session, produce, consume, tables of topics, columns of values.

    session     a SparkSession with sparklog's settings; `connect`: clients of Spark Connect
    produce     writes a DataFrame; `produce_all`: several, and offsets of groups, in one commit
    consume     the log as a DataFrame; `commit_group`: its `ends` as offsets of a group
    datasource  `format("sparklog")`; `access`: its options, and what reads and writes for it
    reading/    reads: their plans and their tasks
    writing/    writes: their plans and their tasks
    lake/       the tables of topics: `create_table`, `stream_history`
    jobs/       the scheduled jobs
    decode      values as columns
    newest      `latest`: the newest record of each key; `upsert_table`: a Delta table of these
    daemon      the daemon of Python workers

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
