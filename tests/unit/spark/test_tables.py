"""The name of a table in Spark's catalog, as SQL."""

import pytest

from sparklog.errors import UsageError
from sparklog.spark.lake.tables import quoted


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("flights", "`flights`"),
        ("db.my-flights", "`db`.`my-flights`"),
        ("`db`.flights", "`db`.`flights`"),
        ("db.`a.b`", "`db`.`a.b`"),
        ("`a``b`", "`a``b`"),
    ],
)
def test_a_dot_in_backquotes_is_no_separator(name: str, found: str) -> None:
    assert quoted(name) == found


@pytest.mark.parametrize("name", ["", "a..b", ".a", "`a", "``", "t USING delta -- `"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a table"):
        quoted(name)
