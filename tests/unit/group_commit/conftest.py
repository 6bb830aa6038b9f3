"""Rows to produce."""

from sparklog.group_commit.rows import Rows


def rows(*values: str, partition: int | None = None, key: bytes | None = None) -> Rows:
    """Return rows with these values, all with one key and partition."""
    count = len(values)
    return Rows(
        key=[key] * count,
        value=[value.encode() for value in values],
        partition=[partition] * count,
        timestamp=[None] * count,
        headers=[None] * count,
    )
