"""What upsert_table() refuses before it makes a table."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.errors import InvalidOptionError, UnknownTopicError
from sparklog.spark import upsert_table
from tests.logs import new_topic

SPARK: Any = None
"""Not asked yet."""


def test_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    log_dir = new_topic(tmp_path / "log")

    with pytest.raises(UnknownTopicError, match="nope"):
        upsert_table(SPARK, log_dir, "nope", "table")


@pytest.mark.parametrize("name", ["columns", "Columns", "subscribe", "assign", "endingOffsets"])
def test_options_for_topics_columns_and_ends_are_refused(tmp_path: Path, name: str) -> None:
    log_dir = new_topic(tmp_path / "log")
    options = {name: "value"}

    with pytest.raises(InvalidOptionError, match=f"(?i)option {name} is not allowed here"):
        upsert_table(SPARK, log_dir, "t", "table", **options)
