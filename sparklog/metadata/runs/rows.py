"""Rows of runs: their order, and which of them count. Pure functions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.metadata.runs.tables import (
    KEY_COLUMNS,
    KEY_NAMES,
    LOG_DIR_KINDS,
    PARTITION,
    PRODUCER,
    RECEIPT,
    RUN_SCHEMA,
)
from sparklog.metadata.state.producers import ProducerMark
from sparklog.record.arrays import array_of, empty_table, nulls, numbers_of, strings_of, values_of

_EMPTY, _LINE_END = strings_of(["", "\n"])
_NO_MARK = ProducerMark()
_MARK = ("producers_from_ms", "producers_from_id")
_ALWAYS = ("kind", "as_of", "gone", "topic_id")


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows sorted as in a run, without columns that are null in all rows.

    The log dir's come first, by kind and key; then the topics', by topic id, kind, partition and
    base offset.
    """
    rows = filled(rows)
    kinds = rows.column("kind")
    is_topics = pc.invert(pc.is_in(kinds, strings_of(sorted(LOG_DIR_KINDS))))
    keys = {
        "part": is_topics,
        "topic": pc.if_else(is_topics, rows.column("topic_id"), _EMPTY),
        "kind": kinds,
        "partition": _column(rows, "partition"),
        "base_offset": _column(rows, "base_offset"),
        "path": _column(rows, "log_path"),
        "position": _column(rows, "log_position"),
    }
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return rows if is_sorted(numbers_of(order)) else rows.take(order)


def merged(tables: Sequence[pa.Table], *, drops_gone: bool) -> pa.Table:
    """Return the newest row of each key in the tables of several runs, sorted as in a run.

    The newest run comes first in `tables`. With `drops_gone` rows that are `gone` are left out. A
    column that one table lacks is null in its rows, and a column that is null in all rows is left
    out.
    """
    tables = [filled(table) for table in tables if table.num_rows]
    if not tables:
        return empty_table(RUN_SCHEMA)
    kept = [tables[0]]
    for table in tables[1:]:
        kept.append(_without_replaced(table, kept))
    rows = pa.concat_tables(kept, promote_options="default")
    if drops_gone:
        rows = chosen(rows, pc.invert(rows.column("gone")))
    return in_order(rows) if len(tables) > 1 else rows


def alive(rows: pa.Table, receipts_before_ms: Mapping[str, int]) -> pa.Table:
    """Return the rows without those of forgotten topics, receipts and producers.

    `receipts_before_ms` has the known topics by id. Readers of runs ignore the same receipts and
    producers (`values.contents`).
    """
    known = sorted(receipts_before_ms)
    before_ms = values_of([receipts_before_ms[one] for one in known], pa.int64())
    ids = rows.column("topic_id")
    slots = pc.index_in(ids, strings_of(known))
    is_request = pc.and_(
        pc.equal(rows.column("kind"), strings_of([RECEIPT])[0]),
        pc.invert(_column(rows, "is_versioned")),
    )
    is_old = pc.less(_column(rows, "used_ms"), before_ms.take(slots.combine_chunks()))
    is_forgotten = pc.fill_null(pc.and_(is_request, is_old), array_of(np.zeros(1, np.bool_))[0])
    is_known = pc.or_(pc.is_null(ids), pc.is_valid(slots))
    return _without_forgotten_producers(chosen(rows, pc.and_not(is_known, is_forgotten)))


def chosen(rows: pa.Table, are: pa.ChunkedArray) -> pa.Table:
    """Return the rows where `are` is true; not copied if it is true in all."""
    return rows if pc.all(are).as_py() else rows.filter(are)


def _without_forgotten_producers(rows: pa.Table) -> pa.Table:
    if all(_column(rows, name).null_count == rows.num_rows for name in _MARK):
        return rows
    marks = {
        (row["topic_id"], row["partition"]): marked(row)
        for row in _rows_of(rows, PARTITION, *_MARK)
    }
    is_producer = numbers_of(pc.equal(rows.column("kind"), strings_of([PRODUCER])[0]))
    stays = np.ones(rows.num_rows, np.bool_)
    stays[is_producer] = [
        (row["used_ms"], row["producer_id"])
        >= marks.get((row["topic_id"], row["partition"]), _NO_MARK)
        for row in _rows_of(rows, PRODUCER, "used_ms", "producer_id")
    ]
    return rows.filter(array_of(stays))


def _rows_of(rows: pa.Table, kind: str, *names: str) -> list[dict[str, Any]]:
    names = ("topic_id", "partition", *names)
    columns = pa.table({name: _column(rows, name) for name in names})
    found: list[dict[str, Any]] = columns.filter(
        pc.equal(rows.column("kind"), strings_of([kind])[0])
    ).to_pylist()
    return found


def marked(row: Mapping[str, Any]) -> ProducerMark:
    """Return the mark in a row of kind partition: states before it are forgotten."""
    return ProducerMark(row["producers_from_ms"] or 0, row["producers_from_id"] or 0)


def _without_replaced(table: pa.Table, newer: Sequence[pa.Table]) -> pa.Table:
    """Return the rows whose keys no newer table has."""
    # Comparing keys is slow, so only rows with topics and paths of the other side are compared.
    at = _with_values_of(table, newer)
    old = table.select(_key_columns(table)).take(array_of(at))
    known = []
    for one in newer:
        keys = one.select(_key_columns(one))
        known += _keys(keys.take(array_of(_with_values_of(keys, [old])))).chunks
    stays = np.ones(table.num_rows, np.bool_)
    stays[at] = ~numbers_of(pc.is_in(_keys(old), pa.chunked_array(known, pa.string())))
    return table if stays.all() else table.filter(array_of(stays))


def _with_values_of(rows: pa.Table, others: Sequence[pa.Table]) -> NDArray[Any]:
    """Return the numbers of rows whose topic and path occur in the others; null is a value."""
    found = np.ones(rows.num_rows, np.bool_)
    for name in ("topic_id", "log_path"):
        known = [chunk.unique() for one in others for chunk in _column(one, name).chunks]
        column = _column(rows, name)
        found &= numbers_of(pc.is_in(column, pa.chunked_array(known, pa.string())))
    return np.flatnonzero(found)


def _key_columns(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name in KEY_NAMES or name == "kind"]


def filled(table: pa.Table) -> pa.Table:
    """Return a table without the columns that are null in all rows; a run has no such columns."""
    names = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name in _ALWAYS or column.null_count < table.num_rows
    ]
    return table if len(names) == table.num_columns else table.select(names)


def _keys(table: pa.Table) -> pa.ChunkedArray:
    """Return each row's key as one string."""
    kinds = table.column("kind")
    parts = [kinds]
    for name in KEY_NAMES:
        if name not in table.column_names:
            parts.append(_EMPTY)
            continue
        has_it = strings_of([kind for kind, names in KEY_COLUMNS.items() if name in names])
        value = pc.fill_null(_column(table, name).cast(pa.string()), _EMPTY)
        parts.append(pc.if_else(pc.is_in(kinds, has_it), value, _EMPTY))
    return pa.chunked_array(pc.binary_join_element_wise(*parts, _LINE_END).chunks, pa.string())


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name in table.column_names:
        return table.column(name)
    return pa.chunked_array([nulls(table.num_rows, RUN_SCHEMA.field(name).type)])


def is_sorted(order: NDArray[Any]) -> bool:
    """Whether the numbers never fall."""
    return bool((order[1:] >= order[:-1]).all())
