"""The metadata log in SQL, for people: `__cluster_metadata` is a Delta table of runs.

A row of a run has the whole state of its key as of version `as_of`; the newest row counts.
`live_rows` is the query for that. Any engine that reads Delta runs it (DuckDB: `from
delta_scan('…/__cluster_metadata')`, Spark: ``from delta.`…/__cluster_metadata` ``). It shows the
log as of the newest fold: later entries are not rows yet.

    select name, partition, log_end_offset from (<live_rows>) …
"""

from typing import Final

from sparklog.metadata.runs.tables import KEY_COLUMNS, KEY_NAMES


def _key_column(name: str) -> str:
    """Return the SQL of a key column: null in rows of kinds whose key does not have it."""
    kinds = ", ".join(f"'{kind}'" for kind, names in KEY_COLUMNS.items() if name in names)
    return f"case when kind in ({kinds}) then {name} end"


_KEY: Final = ", ".join(["kind", *map(_key_column, KEY_NAMES)])


def live_rows(table: str) -> str:
    """Return the SQL query of the rows that count; `table` is the text behind FROM."""
    return f"""
with newest as (
  select * from (
    select *, row_number() over (partition by {_KEY} order by as_of desc) as age from {table}
  ) as ranked
  where age = 1 and not gone
)
select * from newest
where topic_id is null or topic_id in (select topic_id from newest where kind = 'topic')
"""  # noqa: S608 - it is shown to people and not run here
