"""Transactions stay what they are: merged, compacted, verified, exported, imported again."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.interop.broker_files.txn_index import read_txn_index
from sparklog.interop.exports.export_log import ExportOptions, export_to
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.log_reader.isolation import aborted_spans
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.verification.verify import verify
from sparklog.model import READ_UNCOMMITTED, TopicPartition
from tests.maintenance import run
from tests.transactions import Client, Instance, new_log_dir

COMMITTED = {0: ["1", "3"], 1: []}
ALL = {0: ["1", "2", "3", "4"], 1: []}


def written(instance: Instance, topic: str = "t", key: bytes | None = None) -> Client:
    """Transactions that were committed, aborted, committed, and one that is open."""
    client = Client(instance)
    client.init()
    for value, end in (("1", client.commit), ("2", client.abort), ("3", client.commit)):
        client.produce(value, topic=topic, key=key)
        end()
    client.produce("4", topic=topic, key=key)
    return client


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    found = new_log_dir(str(tmp_path / "log"), "t")
    written(found)
    return found


def test_verified(instance: Instance) -> None:
    code, _ = run(verify, instance.catalog.files.uri, records=True, repair=False, table=False)

    assert code == 0


def test_merged(instance: Instance) -> None:
    before = instance.log()
    code, _ = run(merge_segments, instance.catalog.files.uri, seal=True)
    after = Instance(instance.catalog.files.uri)

    assert code == 0
    assert len(after.log().entries()) < len(before.entries())
    assert aborted_spans(after.log().entries()) == aborted_spans(before.entries())
    assert (after.values(), after.values(isolation=READ_UNCOMMITTED)) == (COMMITTED, ALL)


def test_ended_behind_a_merge(instance: Instance) -> None:
    run(merge_segments, instance.catalog.files.uri, seal=True)
    instance.transactions.abort("id")

    assert instance.values() == COMMITTED
    assert instance.log().last_stable_offset == instance.log().log_end_offset


def test_compacted(instance: Instance) -> None:
    path = instance.catalog.files.uri
    config = {"cleanup.policy": "compact", "sparklog.shared.segment.max.bytes": "0"}
    AdminClient(path).create_topics([NewTopic("keyed", 1, config)])
    client = Client(instance, "other")
    client.init()
    for value, end in (("1", client.commit), ("2", client.commit), ("3", client.abort)):
        client.produce(value, topic="keyed", key=b"k")
        end()
    run(compact, path, force=True, reindex=False)
    found = Instance(path)

    assert found.values("keyed") == {0: ["2"]}


@pytest.fixture
def keyed(tmp_path: Path) -> Instance:
    """A compacted topic with the changes of one key, each in a transaction of its own."""
    path = str(tmp_path / "keyed")
    config = {"cleanup.policy": "compact", "sparklog.shared.segment.max.bytes": "0"}
    AdminClient(path).create_topics([NewTopic("t", 1, config)])
    found = Instance(path)
    changed(found, range(30))
    return found


def changed(instance: Instance, values: Iterable[int]) -> None:
    """Change the key again and again; the last change is aborted."""
    client = Client(instance)
    client.init()
    for value in values:
        client.produce(str(value), key=b"k")
        client.commit()
    client.produce("aborted", key=b"k")
    client.abort()


def test_compacted_again_and_again(keyed: Instance) -> None:
    """A marker for each transaction would stay for ever."""
    path = keyed.catalog.files.uri
    for more in range(1, 4):
        run(compact, path, force=True, reindex=False)
        found = Instance(path)
        batches = sum(one.batch_count or 0 for one in found.log().entries())

        assert found.values() == {0: [str(30 * more - 1)]}
        assert batches <= 3 + 2 * more
        assert run(verify, path, records=True, repair=False, table=False)[0] == 0
        changed(found, range(30 * more, 30 * (more + 1)))


def test_compacted_exported_and_imported(keyed: Instance, tmp_path: Path) -> None:
    run(compact, keyed.catalog.files.uri, force=True, reindex=False)
    found = Instance(keyed.catalog.files.uri)
    export_to(found.catalog, str(tmp_path / "broker"), ExportOptions())
    copy = Instance(str(tmp_path / "copy"))
    admin = AdminClient(str(tmp_path / "copy"))
    import_log_dirs(admin, copy.catalog, [str(tmp_path / "broker")], ImportOptions())

    assert copy.values() == found.values() == {0: ["29"]}
    assert copy.log().transactions == ()


def test_trimmed(instance: Instance) -> None:
    admin = AdminClient(instance.catalog.files.uri)
    admin.delete_records({TopicPartition("t", 0): 3})

    assert instance.values() == {0: ["3"], 1: []}


def test_exported_and_imported(instance: Instance, tmp_path: Path) -> None:
    export_to(instance.catalog, str(tmp_path / "broker"), ExportOptions())
    path = str(tmp_path / "copy")
    copy = Instance(path)
    import_log_dirs(AdminClient(path), copy.catalog, [str(tmp_path / "broker")], ImportOptions())

    assert (copy.values(), copy.values(isolation=READ_UNCOMMITTED)) == (COMMITTED, ALL)
    assert copy.log().transactions == ()
    files = (tmp_path / "broker" / "t-0").glob("*.txnindex")
    entries = [one for file in files for one in read_txn_index(file.read_bytes())]
    assert sorted((one.first_offset, one.last_offset) for one in entries) == [(2, 3), (6, 7)]
