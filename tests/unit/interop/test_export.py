"""Topics as a broker's log directory: names, links, indexes, checkpoints, and what is refused."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklog.admin import AdminClient
from sparklog.errors import (
    CorruptRecordError,
)
from sparklog.interop.broker_files import checkpoints
from sparklog.interop.broker_files.txn_index import read_txn_index
from sparklog.interop.exports.abort_markers import AbortMarker, encode_abort
from sparklog.interop.exports.export_log import (
    CHECKPOINTS,
    ExportOptions,
    export_to,
)
from sparklog.interop.exports.export_partition import ExportRules, joined
from sparklog.interop.imports.import_log import ImportOptions
from sparklog.log.names import uuid7
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.state.edit import TopicEdit
from sparklog.model import READ_COMMITTED, SHARED_PREFIX
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches
from tests.broker_files import TRANSACTIONAL, batch, marker, write_indexes, write_segment
from tests.compat.cases import BROKER
from tests.edits import NOW_MS, appending, at, segment
from tests.logs import append, columns, new_topic, rows, values
from tests.opening import note_looks
from tests.unit.interop.conftest import Interop, export

LOG = f"{0:020d}.log"
OWN_FILES = {"retention.ms": "-1", "sparklog.shared.segment.max.bytes": "0"}
"""Records that are appended to such a topic get files of their own."""


class TestFiles:
    def test_an_imported_log_is_what_it_was(self, interop: Interop, tmp_path: Path) -> None:
        kept = replace(interop, broker=BROKER)
        kept.run()
        export_to(kept.catalog, str(tmp_path / "out"), ExportOptions())

        for folder in (tmp_path / "out").glob("*-0"):
            for path in folder.glob("*.log"):
                assert path.read_bytes() == (BROKER / folder.name / path.name).read_bytes()
        for name in ("plain-none-0", "transactional-0", "compacted-0"):
            for path in (BROKER / name).glob("*index"):
                if path.suffix != ".txnindex":
                    assert (tmp_path / "out" / name / path.name).read_bytes() == path.read_bytes()
            epochs = tmp_path / "out" / name / checkpoints.LEADER_EPOCH
            assert epochs.read_bytes() == (BROKER / name / checkpoints.LEADER_EPOCH).read_bytes()

    def test_many_topics_cost_no_more_looks_at_the_metadata_than_one(
        self, interop: Interop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in "abc":
            new_topic(interop.log_dir, name, 1)
        looks = note_looks(monkeypatch)
        export(interop, tmp_path / "one", ExportOptions(topics=["a"]))
        count = len(looks)
        export(interop, tmp_path / "three", ExportOptions(topics=["a", "b", "c"]))

        assert len(looks) == 2 * count

    def test_segments_of_ours_are_sealed_on_the_way(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=1, config=OWN_FILES)
        catalog, partitions = interop.catalog, pa.array([0] * 5, pa.int32())
        plan = plan_write(catalog, "t", WriteOptions(flush=False))
        pending = []
        for part in range(3):  # all planned at offset 0, so that two have to be moved
            writer = TopicWriter(catalog.files, plan, catalog.clock, seed=part)
            writer.write(columns([f"{part}-{i}" for i in range(5)]), partitions)
            pending.append(writer.close())
        for entries in pending:
            commit_write(catalog, plan, entries)
        report = export(interop, tmp_path / "out")
        back = replace(interop, broker=tmp_path / "out", log_dir=tmp_path / "back")
        back.run()

        assert (report.start, report.end) == (0, 15)
        assert (report.exported.segments, report.exported.linked) == (2, 0)
        assert back.offsets() == list(range(15))
        assert values(back.log_dir) == values(interop.log_dir)

    def test_links_of_sealed_ones_below_the_newest_where_they_are_asked_for(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        folder = interop.partition()
        source = write_segment(folder, 0, batch(0, epoch=2))
        write_segment(folder, 2, batch(2, epoch=2), batch(4, epoch=5))
        interop.run()
        report = export(interop, tmp_path / "out", ExportOptions(link=True))

        assert report.exported.linked == 1
        assert (tmp_path / "out" / "t-0" / LOG).samefile(source)
        epochs = (tmp_path / "out" / "t-0" / checkpoints.LEADER_EPOCH).read_text()
        assert epochs == "0\n2\n2 0\n5 4\n"

    def test_copies_which_a_broker_may_cut(self, interop: Interop, tmp_path: Path) -> None:
        source = write_segment(interop.partition(), 0, batch(0))
        write_segment(interop.partition(), 2, batch(2))
        interop.run()
        report = export(interop, tmp_path / "out")

        path = tmp_path / "out" / "t-0" / LOG
        assert (report.exported.segments, report.exported.linked) == (2, 0)
        assert path.read_bytes() == source.read_bytes()
        assert path.stat().st_nlink == 1

    def test_a_file_that_is_longer_than_its_row_says_is_cut(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        folder = interop.partition()
        source = write_segment(folder, 0, batch(0))
        write_segment(folder, 2, batch(2))
        interop.run()
        with source.open("ab") as file:
            file.write(b"more")
        export(interop, tmp_path / "out", ExportOptions(link=True))

        assert (tmp_path / "out" / "t-0" / LOG).read_bytes() == batch(0)

    def test_indexes_that_are_not_there_are_made(self, interop: Interop, tmp_path: Path) -> None:
        config = {"index.build": "job", "retention.ms": "-1"}
        new_topic(interop.log_dir, partitions=1, config=config)
        append(interop.log_dir, 0, ["a"], timestamps=[5])
        export(interop, tmp_path / "out")

        folder = tmp_path / "out" / "t-0"
        assert (folder / f"{0:020d}.timeindex").read_bytes() == bytes(7) + b"\5" + bytes(4)
        assert (folder / f"{0:020d}.index").read_bytes() == b""

    def test_aborted_transactions_have_an_index(self, interop: Interop, tmp_path: Path) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0, producer=3, attributes=TRANSACTIONAL))
        write_segment(folder, 2, marker(2, 3, 0), batch(3, producer=4, attributes=TRANSACTIONAL))
        interop.run()
        export(interop, tmp_path / "out")

        out = tmp_path / "out" / "t-0"
        entries = read_txn_index((out / f"{2:020d}.txnindex").read_bytes())
        assert [entry[1:4] for entry in entries] == [(3, 0, 2)]
        assert not (out / f"{0:020d}.txnindex").exists()

    def test_a_log_without_segments_has_an_empty_one(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        write_segment(interop.partition(), 77)
        interop.run()
        report = export(interop, tmp_path / "out")

        names = sorted(path.name for path in (tmp_path / "out" / "t-0").iterdir())
        assert names == [
            *(f"{77:020d}.{suffix}" for suffix in ("index", "log", "timeindex")),
            "leader-epoch-checkpoint",
            "partition.metadata",
        ]
        assert report.exported.segments == 1

    def test_deleted_beginnings_are_in_the_checkpoint(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        new_topic(interop.log_dir, partitions=1, config={"retention.ms": "-1"})
        append(interop.log_dir, 0, range(10))
        AdminClient(str(interop.log_dir)).delete_records({("t", 0): 4})
        export(interop, tmp_path / "out")

        found = {name: (tmp_path / "out" / name).read_text() for name in CHECKPOINTS}
        assert found == {
            checkpoints.LOG_START: "0\n1\nt 0 4\n",
            checkpoints.RECOVERY_POINT: "0\n1\nt 0 10\n",
            checkpoints.HIGH_WATERMARK: "0\n1\nt 0 10\n",
            checkpoints.CLEANER: "0\n0\n",
        }

    @pytest.mark.parametrize(("position", "told"), [(-1, "checksum"), (12, "its row says")])
    def test_damage_is_refused(
        self, interop: Interop, tmp_path: Path, position: int, told: str
    ) -> None:
        new_topic(interop.log_dir, partitions=1, config=OWN_FILES)
        append(interop.log_dir, 0, ["a"])
        (path,) = interop.log_dir.glob("t-*/t-0/*.log")
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)

        with pytest.raises(CorruptRecordError, match=told):
            export(interop, tmp_path / "out")
        export(interop, tmp_path / "out2", ExportOptions(check=False, flush=False))
        assert (tmp_path / "out2" / "t-0" / LOG).read_bytes() == bytes(data)

    def test_a_message_set_that_was_moved_cannot_be_sealed(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        kept = replace(interop, broker=BROKER)
        kept.run(ImportOptions(topics=["magic1-none"]))
        catalog = kept.catalog
        topic = catalog.topic("magic1-none")
        (entry,) = kept.log("magic1-none").segments
        moved = entry._replace(
            base_offset=115, next_offset=130, log_path=f"{entry.log_path[:-4]}.x.log"
        )
        catalog.commit(topic, lambda _: TopicEdit(segments=[moved]), operation="TEST")
        directory = kept.log_dir / f"magic1-none-{topic.topic_id}"
        os.link(directory / entry.log_path, directory / moved.log_path)

        with pytest.raises(CorruptRecordError, match="cannot be sealed"):
            export(kept, tmp_path / "out")


def append_shared(interop: Interop, *counts: int) -> None:
    """Append records to partitions 0, 1, … of topic `t`, all in one shared segment."""
    catalog = interop.catalog
    path, data, entries = f"{SHARED_PREFIX}{uuid7(NOW_MS, os.urandom(10))}.log", b"", []
    for partition, count in enumerate(counts):
        piece = batch(0, count) + batch(count, 1)
        builder = SegmentBuilder(0, partition)
        builder.append(scan_batches(piece).batches)
        row = builder.finish()[0].entry(0, NOW_MS, path)
        entries.append(row._replace(log_position=len(data)))
        data += piece
    catalog.files.write_new(path, data)
    catalog.commit(catalog.topic("t"), appending(*entries), operation="PRODUCE")


class TestJoined:
    """Rewritten segments become as few as a broker would have made."""

    def test_slices_of_shared_segments(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=2, config=OWN_FILES)
        append(interop.log_dir, 0, ["a"])
        append_shared(interop, 2, 5)
        append_shared(interop, 3, 1)
        reports = export_to(interop.catalog, str(tmp_path / "out"), ExportOptions())
        back = replace(interop, broker=tmp_path / "out", log_dir=tmp_path / "back")
        assert {report.problem for report in back.run()} == {None}

        done = [(one.end, one.exported.segments, one.exported.linked) for one in reports]
        assert done == [(8, 2, 0), (8, 1, 0)]
        assert [len(found) for found in rows(back.log_dir).values()] == [8, 8]
        assert rows(back.log_dir) == rows(interop.log_dir)
        log = tmp_path / "out" / "t-1" / LOG
        indexes = [log.with_suffix(suffix) for suffix in (".index", ".timeindex")]
        written = [path.read_bytes() for path in indexes]
        write_indexes(log)
        assert written == [path.read_bytes() for path in indexes]

    def test_one_slice_alone(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=2, config={"retention.ms": "-1"})
        append_shared(interop, 2, 5)
        (_, report) = export_to(interop.catalog, str(tmp_path / "out"), ExportOptions())

        assert (report.end, report.exported.segments, report.exported.linked) == (6, 1, 0)
        assert (tmp_path / "out" / "t-1" / LOG).read_bytes() == batch(0, 5) + batch(5, 1)

    def test_a_damaged_slice_is_refused_by_its_file(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=2, config={"retention.ms": "-1"})
        append_shared(interop, 2, 5)
        (path,) = interop.log_dir.glob(f"{SHARED_PREFIX}*.log")
        path.write_bytes(path.read_bytes()[:-1] + b"x")

        with pytest.raises(CorruptRecordError, match=rf"{SHARED_PREFIX}{path.name}.*checksum"):
            export(interop, tmp_path / "out")

    @pytest.mark.parametrize(
        ("changes", "rules", "sizes"),
        [
            ({}, {}, [1, 3, 1]),
            ({}, {"segment_bytes": 20}, [1, 2, 1, 1]),
            ({}, {"segment_ms": 9}, [1, 1, 1, 1, 1]),
            ({}, {"segment_ms": 10}, [1, 2, 1, 1]),
            ({"next_offset": 2**31 + 9}, {}, [1, 2, 1, 1]),
            ({"next_offset": 2**31}, {}, [1, 3, 1]),
        ],
    )
    def test_as_long_as_a_segment_may_be(
        self, changes: dict[str, Any], rules: dict[str, Any], sizes: list[int]
    ) -> None:
        """A sealed segment, three that are not (the second of them a slice), and a sealed one."""
        plain = at(5, segment(records=5, log_bytes=10))
        entries = [
            at(0, segment(records=5, log_bytes=99)),
            plain._replace(max_timestamp=10),
            at(10, plain)._replace(max_timestamp=20, log_path=f"{SHARED_PREFIX}x.log"),
            at(15, plain)._replace(**{"max_timestamp": 30, **changes}),
            at(20, plain)._replace(file_base_offset=20),
        ]
        limits = ExportRules(**{"segment_bytes": 100, "segment_ms": 100, **rules})

        assert [len(found) for found in joined(entries, limits)] == sizes
        assert list(joined([], limits)) == []


class TestEpochs:
    def test_begin_where_the_log_does(self, interop: Interop, tmp_path: Path) -> None:
        write_segment(
            interop.partition(), 0, batch(0, epoch=2), batch(2, epoch=5), batch(4, 4, epoch=7)
        )
        interop.run(ImportOptions(config={"retention.ms": "-1"}))
        append(interop.log_dir, 0, ["a"])
        AdminClient(str(interop.log_dir)).delete_records({("t", 0): 3})
        export(interop, tmp_path / "out")

        epochs = (tmp_path / "out" / "t-0" / checkpoints.LEADER_EPOCH).read_text()
        assert epochs == "0\n3\n5 3\n7 4\n8 8\n"


class TestOpenTransactions:
    """A transaction that is open here is aborted there, by a marker that a broker reads."""

    def data(self, offset: int, producer: int) -> bytes:
        return batch(offset, producer=producer, attributes=TRANSACTIONAL, epoch=5)

    def test_are_aborted_behind_the_end(self, interop: Interop, tmp_path: Path) -> None:
        folder = interop.partition()
        write_segment(folder, 0, self.data(0, 3), marker(2, 3, 1), self.data(3, 3))
        write_segment(folder, 5, self.data(5, 4), self.data(7, 3))
        interop.run()
        append(interop.log_dir, 0, ["a"])
        report = export(interop, tmp_path / "out")

        out = tmp_path / "out" / "t-0"
        assert (report.end, report.exported.segments) == (12, 4)
        entries = read_txn_index((out / f"{10:020d}.txnindex").read_bytes())
        assert [entry[1:4] for entry in entries] == [(3, 3, 10), (4, 5, 11)]
        checkpoint = (tmp_path / "out" / checkpoints.RECOVERY_POINT).read_text()
        assert checkpoint == "0\n1\nt 0 12\n"

    def test_stay_hidden_on_the_way_back(self, interop: Interop, tmp_path: Path) -> None:
        write_segment(interop.partition(), 0, self.data(0, 3), batch(2))
        interop.run()
        export(interop, tmp_path / "out")
        back = replace(interop, broker=tmp_path / "out", log_dir=tmp_path / "back")
        back.run()

        assert back.offsets() == [0, 1, 2, 3]
        assert back.offsets("t", READ_COMMITTED) == [2, 3]
        assert back.log().log_end_offset == back.log().last_stable_offset == 5

    def test_of_which_no_batch_is_left_need_no_marker(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        folder = interop.partition()
        write_segment(folder, 0, self.data(0, 3))
        write_segment(folder, 2, batch(2))
        interop.run()
        AdminClient(str(interop.log_dir)).delete_records({("t", 0): 2})

        assert export(interop, tmp_path / "out").end == 4

    def test_a_marker_is_what_a_broker_writes(self) -> None:
        written = encode_abort(AbortMarker(7, 0, 1), 9, 0)
        # The times differ, and so the checksum.
        expected = bytearray(marker(9, 7, 0))
        expected[27:43] = b"\xff" * 16
        expected[17:21] = written[17:21]

        assert written == bytes(expected)
        verify_checksums(written, scan_batches(written).batches)
