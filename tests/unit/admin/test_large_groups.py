"""AdminClient deletes groups that have more offsets than a batch holds."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, AlterConfigOp, CommittedOffset, NewTopic
from sparklog.coordinator import group_log
from sparklog.coordinator.commits.offsets import offset_record, offset_records
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests.group_language import FLIGHTS, GROUP, START_MS
from tests.group_logs import append_records

PLACES = tuple(TopicPartition("flights", number) for number in range(10))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Of a log dir with the topic `flights` and a group."""
    AdminClient(tmp_path / "log").create_topics([NewTopic("flights", 10)])
    catalog = Catalog(open_files(str(tmp_path / "log")), flush=False)
    offset = CommittedOffset(5, committed_ms=START_MS)
    append_records(catalog, offset_records(GROUP, dict.fromkeys(PLACES, offset)))
    return catalog


@pytest.fixture
def admin(tmp_path: Path, catalog: Catalog) -> AdminClient:
    """Of the same; a batch holds a few deletions."""
    admin = AdminClient(tmp_path / "log")
    admin.incremental_alter_configs({OFFSETS_TOPIC: [AlterConfigOp("max.message.bytes", 300)]})
    return admin


def test_one_is_deleted(admin: AdminClient) -> None:
    admin.delete_consumer_groups([GROUP])
    assert admin.list_consumer_groups() == []


def test_its_offsets_are_deleted(admin: AdminClient) -> None:
    admin.delete_consumer_group_offsets(GROUP, PLACES[1:])
    assert list(admin.list_consumer_group_offsets(GROUP)) == [FLIGHTS]


def test_others_may_write_between_two_batches(
    admin: AdminClient, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [[offset_record(GROUP, FLIGHTS, CommittedOffset(9, committed_ms=START_MS))], []]
    real: Any = vars(group_log)["batch_of"]

    def batch_of(*given: object) -> Any:
        if others and (records := others.pop()):
            append_records(catalog, records)
        return real(*given)

    monkeypatch.setattr(group_log, "batch_of", batch_of)
    admin.delete_consumer_groups([GROUP])
    assert (others, admin.list_consumer_groups()) == ([], [])
