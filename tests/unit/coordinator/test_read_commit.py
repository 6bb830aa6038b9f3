"""A commit's record is read at once where it is plain, and by its schema where it is not."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.coordinator.commits.offsets import offset_of, offset_record, read_commit
from sparklog.coordinator.records import GROUP_RECORDS, read_record
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import CorruptRecordError
from sparklog.model import TopicPartition

TEXTS = st.text(max_size=5)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PLACE = TopicPartition("flights", 3)
KEY, _ = offset_record("readers", PLACE, None)
VALUE = offset_record("readers", PLACE, CommittedOffset(7, 2, "note", 99)).value or b""


def by_schema(key: bytes, value: bytes | None) -> Any:
    """The same by the schemas of keys and values; the text of an error."""
    try:
        found = read_record(GROUP_RECORDS, key, value)
    except CorruptRecordError as error:
        return str(error)
    place = TopicPartition(found.key["topic"], found.key["partition"])
    return found.key["group"], place, None if found.value is None else offset_of(found.value)


def read(key: bytes, value: bytes | None) -> Any:
    try:
        return read_commit(key, value)
    except CorruptRecordError as error:
        return str(error)


class TestReadCommit:
    @given(
        TEXTS,
        st.builds(TopicPartition, TEXTS, INT32),
        st.none()
        | st.builds(CommittedOffset, INT64, INT32, TEXTS, INT64, st.none() | st.integers(0, 9)),
    )
    def test_what_is_written_is_read(
        self, group: str, place: TopicPartition, offset: CommittedOffset | None
    ) -> None:
        key, value = offset_record(group, place, offset)
        assert read(key, value) == by_schema(key, value)
        assert read(key, value)[:2] == (group, place)

    @given(st.binary(max_size=30), st.none() | st.binary(max_size=30))
    @example(KEY, VALUE + b"more")
    @example(KEY + b"more", VALUE)
    @example(KEY[:-1], VALUE)
    @example(KEY, VALUE[:-1])
    @example(KEY.replace(b"readers", b"\xff\xfe\xfd3456"), VALUE)
    @example(b"\0\1\xff\xff" + KEY[4:], VALUE)
    @example(KEY, b"\0\4" + VALUE[2:])
    def test_of_any_bytes_it_says_what_the_schema_says(
        self, key: bytes, value: bytes | None
    ) -> None:
        """Goal: no bytes are read in another way. Method: any, and a record that is damaged."""
        assert read(b"\0\1" + key[2:], value) == by_schema(b"\0\1" + key[2:], value)

    def test_bytes_that_are_cut_are_refused(self) -> None:
        with pytest.raises(CorruptRecordError):
            read_commit(KEY[:5], None)
