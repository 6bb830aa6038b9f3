"""Rows to values and back, and tables of other releases."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptMetadataError
from sparklog.manifest.rows import from_parquet, read_parquet, to_parquet
from sparklog.manifest.tables import (
    MANIFEST_KINDS,
    MANIFEST_SCHEMA,
    SEGMENT_SCHEMA,
    check_table,
    manifest_table,
    segment_entries,
    segment_row,
    segments_table,
)
from sparklog.model import AbortedRange, SegmentEntry
from tests.manifests import segment

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PATH = st.text(max_size=9)

ENTRIES = st.builds(
    SegmentEntry,
    partition=INT32,
    **dict.fromkeys(("base_offset", "next_offset", "file_base_offset", "log_bytes"), INT64),
    **dict.fromkeys(("created_ms", "max_timestamp", "max_timestamp_delta"), INT64),
    log_path=PATH,
    **dict.fromkeys(("index_path", "time_index_path", "transaction_id"), st.none() | PATH),
    **dict.fromkeys(("index_bytes", "log_crc32c", "record_count", "removed_ms"), st.none() | INT64),
    codec=st.none() | INT32,
    producer_ids=st.none() | st.lists(INT64, max_size=3).map(tuple),
    transactional=st.booleans(),
    aborted=st.lists(st.builds(AbortedRange, INT64, INT64, INT64), max_size=3).map(tuple),
)


class TestSegments:
    @given(st.lists(ENTRIES, min_size=1, max_size=5))
    def test_come_back_from_a_table_and_from_a_file(self, entries: list[SegmentEntry]) -> None:
        """Goal: every column survives, null apart from zero and from empty.

        Method: any entries, through Arrow and through Parquet.
        """
        table = manifest_table(map(segment_row, entries))
        rows = from_parquet(memoryview(to_parquet(table)), "here")

        assert segment_entries(segments_table(entries)) == entries
        assert rows.table.schema == MANIFEST_SCHEMA
        assert segment_entries(rows.segments) == entries

    def test_that_were_never_aborted_write_no_column_for_it(self) -> None:
        written = read_parquet(
            memoryview(to_parquet(manifest_table([segment_row(segment())]))), "t"
        )

        assert "aborted" not in written.column_names
        assert "index_path" not in written.column_names
        assert "log_path" in written.column_names

    def test_of_a_table_without_a_row_are_none(self) -> None:
        assert segment_entries(segments_table([])) == []
        assert segments_table([]).schema == SEGMENT_SCHEMA


class TestTablesOfOtherReleases:
    def test_an_unknown_kind_is_refused(self) -> None:
        table = pa.table({"kind": ["segment", "tombstone", "alias"]})

        with pytest.raises(CorruptMetadataError, match="a.parquet: rows of unknown kind alias, to"):
            check_table(table, MANIFEST_SCHEMA, MANIFEST_KINDS, "a.parquet")

    def test_an_unknown_column_is_ignored_and_a_missing_one_is_null(self) -> None:
        table = pa.table({"kind": ["topic"], "closed_ms": pa.array([7], pa.int32()), "mood": ["x"]})
        (row,) = check_table(table, MANIFEST_SCHEMA, MANIFEST_KINDS, "a.parquet").to_pylist()

        filled = {name: value for name, value in row.items() if value is not None}
        assert filled == {"kind": "topic", "closed_ms": 7}
        assert row.keys() == set(MANIFEST_SCHEMA.names)
