"""An imported topic lives on: every job, produce, and the way out again."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, AlterConfigOp
from sparklog.interop.exports.export_log import ExportOptions, export_to
from sparklog.log_writer import WriteOptions, plan_write
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Job
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from sparklog.maintenance.verification.verify import verify
from sparklog.model import READ_COMMITTED, Codec
from tests.broker_files import TRANSACTIONAL, batch, marker, write_segment
from tests.compat.cases import BROKER
from tests.logs import Row, append, image, live_rows, rows
from tests.maintenance import outcome_of, run
from tests.naive.messages import message, wrapper
from tests.naive.records import Record
from tests.sweeping import sweep
from tests.unit.interop.conftest import Interop

T0 = 1_700_000_000_000
END = 40
"""Where the log of `mixed` ends."""

Seen = dict[str, tuple[dict[int, list[Row]], list[int]]]
"""Of a topic every record, and the offsets that a reader of committed records sees."""


def old(first: int, count: int, codec: str | None, magic: int) -> bytes:
    """Messages of an old format: keys k0, k1 and k2 in turn, every fifth value null."""
    found = [
        Record(
            offset,
            T0 + offset if magic else -1,
            b"k%d" % (offset % 3),
            b"%d" % offset if offset % 5 else None,
        )
        for offset in range(first, first + count)
    ]
    if codec is None:
        return b"".join(message(one, magic) for one in found)
    return wrapper(found, magic, codec)


def write_mixed(folder: Path) -> None:
    """A log as decades leave it: formats 0, 1 and 2, its beginning deleted, three leader epochs.

    One transaction commits, one aborts, and one is open at the end.
    """
    write_segment(folder, 5, old(5, 3, None, 0), old(8, 2, "gzip", 0))
    write_segment(folder, 10, old(10, 5, "snappy", 1), old(15, 2, None, 1), batch(17, 3, epoch=2))
    data = [batch(at, producer=at, attributes=TRANSACTIONAL, epoch=4) for at in (20, 22)]
    write_segment(folder, 20, *data, marker(24, 20, 1), marker(25, 22, 0))
    opened = batch(26, 4, producer=9, attributes=TRANSACTIONAL, epoch=4, codec=Codec.LZ4)
    write_segment(folder, 26, opened)
    write_segment(folder, 30, batch(30, 10, epoch=6))
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n2 17\n4 20\n6 30\n")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Interop:
    """What a real broker kept, topics of every kind, and `mixed`."""
    place = tmp_path_factory.mktemp("life")
    shutil.copytree(BROKER, place / "broker")
    found = Interop(place / "broker", place / "log")
    write_mixed(found.partition("mixed-0"))
    with (found.broker / "log-start-offset-checkpoint").open("w") as file:
        file.write("0\n1\nmixed 0 7\n")
    assert {report.problem for report in found.run()} == {None}
    return found


@pytest.fixture
def imported(template: Interop, tmp_path: Path) -> Interop:
    broker, log = tmp_path / "broker", tmp_path / "log"
    shutil.copytree(template.broker, broker)
    return Interop(broker, shutil.copytree(template.log_dir, log))


def seen(interop: Interop) -> Seen:
    return {
        name: (rows(interop.log_dir, name), interop.offsets(name, READ_COMMITTED))
        for name in interop.catalog.topics()
    }


def configure(interop: Interop, topic: str, config: Mapping[str, str]) -> None:
    ops = {topic: [AlterConfigOp(name, value) for name, value in config.items()]}
    AdminClient(str(interop.log_dir)).incremental_alter_configs(ops)


def latest(interop: Interop, topic: str, end: int, isolation: str) -> dict[bytes, Row]:
    """The last record of each key below `end`."""
    visible = set(interop.offsets(topic, isolation))
    found = rows(interop.log_dir, topic)[0]
    return {row.key: row for row in found if row.key and row.offset in visible and row.offset < end}


class TestJobs:
    @pytest.mark.parametrize(
        ("job", "options"),
        [
            (build_index, {"check": False, "rebuild": True}),
            (merge_segments, {"seal": False}),
            (merge_segments, {"seal": True}),
            (verify, {"repair": False, "records": True}),
        ],
    )
    def test_change_nothing_for_readers(
        self, job: Job, options: dict[str, Any], imported: Interop
    ) -> None:
        before = seen(imported)
        code, reports = run(job, imported.log_dir, **options)

        assert code == DONE, reports
        assert seen(imported) == before
        assert sweep(str(imported.log_dir)).code in (DONE, NOTHING_TO_DO)
        assert seen(imported) == before
        code, reports = run(verify, imported.log_dir, repair=False, records=True)
        assert code == DONE, reports

    def test_merging_makes_one_segment_of_several_formats(self, imported: Interop) -> None:
        run(merge_segments, imported.log_dir, seal=False)

        # The log begins within it.
        assert live_rows(imported.log_dir, "mixed")["base_offset"].to_pylist() == [5]

    def test_retention_takes_what_is_old_and_leaves_the_end(self, imported: Interop) -> None:
        configure(imported, "mixed", {"retention.ms": "1"})
        assert run(retention, imported.log_dir)[0] == DONE

        assert imported.offsets("mixed") == []
        assert append(imported.log_dir, 0, ["new"], topic="mixed").ranges == ((0, END, END + 1),)

    def test_a_beginning_is_deleted_within_a_message_set(self, imported: Interop) -> None:
        before = imported.offsets("mixed")
        AdminClient(str(imported.log_dir)).delete_records({("mixed", 0): 12})
        run(retention, imported.log_dir)

        assert imported.offsets("mixed") == [offset for offset in before if offset >= 12]


class TestCompaction:
    def test_keeps_the_latest_record_of_each_key(self, imported: Interop) -> None:
        configure(imported, "mixed", {"cleanup.policy": "compact"})
        expected = latest(imported, "mixed", 26, READ_COMMITTED)
        outcome = outcome_of(compact, imported.log_dir, force=True, reindex=False)

        assert outcome.problems == []
        found = [row for row in rows(imported.log_dir, "mixed")[0] if row.offset < 26]
        assert {row.key: row for row in found} == expected
        assert len(found) == len(expected)

    def test_leaves_a_transaction_alone_that_may_still_commit(self, imported: Interop) -> None:
        configure(imported, "mixed", {"cleanup.policy": "compact"})
        outcome_of(compact, imported.log_dir, force=True, reindex=False)
        folder = imported.partition("mixed-0")
        write_segment(folder, END, marker(END, 9, 1, epoch=6), batch(END + 1, epoch=6))
        imported.run()

        assert imported.offsets("mixed", READ_COMMITTED)[-16:] == [*range(26, 40), 41, 42]

    def test_of_a_brokers_compacted_topic_goes_on(self, imported: Interop) -> None:
        before = latest(imported, "compacted", 100, READ_COMMITTED)
        newest = rows(imported.log_dir, "compacted")[0][-50:]
        append(imported.log_dir, 0, ["x"], topic="compacted", keys=["k0"])
        outcome_of(compact, imported.log_dir, force=True, reindex=False)

        found = {row.key: row for row in rows(imported.log_dir, "compacted")[0][:-1]}
        assert found == before | {row.key: row for row in newest}


class TestProduce:
    def test_carries_an_epoch_above_every_imported_one(self, imported: Interop) -> None:
        assert plan_write(imported.catalog, "mixed", WriteOptions()).leader_epochs == {0: 7}
        append(imported.log_dir, 0, ["a", "b"], topic="mixed")

        newest = list(image(imported.log_dir, "mixed").segments(0))[-1]
        assert (newest.base_offset, newest.max_leader_epoch) == (END, 7)

    def test_lies_behind_an_open_transaction(self, imported: Interop) -> None:
        before = imported.offsets("mixed", READ_COMMITTED)
        append(imported.log_dir, 0, ["a"], topic="mixed")

        assert imported.log("mixed").last_stable_offset == 26
        assert imported.offsets("mixed", READ_COMMITTED) == before
        assert imported.offsets("mixed")[-1] == END


class TestOut:
    def test_and_in_again_after_all_that(self, imported: Interop, tmp_path: Path) -> None:
        append(imported.log_dir, 0, ["a"], topic="mixed")
        run(merge_segments, imported.log_dir, seal=False)
        before = seen(imported)
        export_to(imported.catalog, str(tmp_path / "out"), ExportOptions())
        back = replace(imported, broker=tmp_path / "out", log_dir=tmp_path / "back")
        assert {report.problem for report in back.run()} == {None}
        found = seen(back)

        # The export has aborted the transaction: the records behind it are stable now.
        everything, committed = before["mixed"]
        before["mixed"] = everything, [*committed, *range(30, END + 1)]
        assert found == before
        assert plan_write(back.catalog, "mixed", WriteOptions()).leader_epochs == {0: 8}
