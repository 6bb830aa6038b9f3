"""The name of a table in Spark's catalog, as SQL."""

import pytest

from sparklog.spark.tables import quoted


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("flights", "`flights`"),
        ("db.my-flights", "`db`.`my-flights`"),
        ("`db`.flights", "`db`.`flights`"),
        ("db.`a.b`", "`db`.`a.b`"),
        ("`a``b`", "`a``b`"),
        ("a..b", "a..b"),
        ("`a", "`a"),
        ("", ""),
    ],
)
def test_a_dot_in_backquotes_is_no_separator(name: str, found: str) -> None:
    assert quoted(name) == found
