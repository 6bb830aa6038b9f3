"""The isolation level of latest() and upsert_table()."""

import pytest

from sparklog.spark.newest import committed_unless_given


@pytest.mark.parametrize(
    "options", [{}, {"isolation_level": None}, {"isolation.level": None, "columns": "key"}]
)
def test_is_read_committed_by_default(options: dict[str, object]) -> None:
    found = committed_unless_given(options)

    assert found == {**options, "isolation.level": "read_committed"}


@pytest.mark.parametrize(
    "name", ["isolation.level", "Isolation.Level", "isolation_level", "kafka.isolation.level"]
)
def test_is_the_one_that_is_given_in_any_spelling(name: str) -> None:
    """Of two spellings in a call one would be ignored: the user's, where Spark orders them so."""
    options = {name: "read_uncommitted"}

    assert committed_unless_given(options) == options
