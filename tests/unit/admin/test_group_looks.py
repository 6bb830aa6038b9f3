"""How often a reader of groups looks at the metadata log."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.image import Image
from tests.group_language import FLIGHTS


@pytest.mark.parametrize("names", [["g0"], [f"g{number}" for number in range(9)]])
def test_any_number_of_groups_is_read_from_a_few_looks_at_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """Over an object store each look for a newer version is a request."""
    admin = AdminClient(tmp_path / "log")
    admin.create_topics([NewTopic("flights", 1)])
    for name in names:
        admin.alter_consumer_group_offsets(name, {FLIGHTS: 0})
    looks: list[object] = []
    look = MetadataLog.image

    def counted(log: MetadataLog, *topics: Any) -> Image:
        looks.append(topics)
        return look(log, *topics)

    monkeypatch.setattr(MetadataLog, "image", counted)

    assert [one.group_id for one in admin.describe_consumer_groups(names)] == names
    assert list(admin.consumer_group_lags(in_time=False)) == names
    assert len(looks) <= 12
