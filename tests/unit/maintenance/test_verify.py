"""Verify over files and the image; which batches of a damaged log are sound: test_salvage.py.

Repairs: test_verify_repair.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from immutables import Map

from sparklog.log.names import CLUSTER_METADATA, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.maintenance.job import Outcome
from sparklog.maintenance.leases import Leases
from sparklog.maintenance.runner import DONE, FAILED, JobRun, StepReport
from sparklog.maintenance.verification.verified_image import image_problems
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.names import entry_path
from sparklog.metadata.state.edit import PartitionState
from sparklog.metadata.state.image import PartitionLog, TopicContent, TopicImage
from sparklog.metadata.state.segment_tables import segments_table
from sparklog.metadata.state.segments import LiveSegments
from sparklog.metadata.upkeep.fold import fold
from sparklog.model import Codec
from sparklog.storage.memory import MemoryFiles
from tests import edits
from tests.compaction import keyed_batch
from tests.damage import Log
from tests.logs import append
from tests.maintenance import context_of, make_unreadable, new_topic, outcome_of, run
from tests.partitions import DIRECTORY, NOW_MS, TOPIC, Partition, batch, marker, partitions
from tests.verifying import ZERO, check, damaged, repair, sound, two

pytestmark = pytest.mark.slow

OTHER = {"index.interval.bytes": "90"}


class TestSound:
    @given(partitions())
    def test_nothing_is_wrong_with_what_was_written(self, partition: Partition) -> None:
        """Whatever the interval of its indexes is."""
        assert check(partition).problems == check(partition, records=True).problems == []

    @pytest.mark.parametrize("configs", [ZERO, OTHER, {}])
    def test_indexes_of_another_interval_are_right(self, configs: dict[str, str]) -> None:
        partition = two().append(batch(3, 9), batch(1), marker(40), batch(5))

        assert sound(check(partition, configs=configs))

    def test_indexes_that_were_left_to_the_job_are_no_problem(self) -> None:
        assert sound(check(Partition().append(batch(1), batch(2), interval=None)))

    def test_a_dry_run_says_what_would_be_read(self) -> None:
        partition = two()
        size = sum(entry.log_bytes for entry in partition.segments)
        code, (_, report) = run(verify, partition, repair=False, records=False, dry_run=True)

        assert (code, report.rows) == (DONE, [{"partition": 0, "segments": 2, "bytes": size}])

    def test_counts_what_it_read(self) -> None:
        partition = two()
        size = sum(entry.log_bytes for entry in partition.segments)

        counts = {"segments": 2, "bytes": size, "damaged": 0, "repaired": 0}
        assert check(partition).counts == repair(partition).counts == counts

    def test_a_real_log_is_sound(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=2)
        for number in range(4):
            append(log_dir, number % 2, range(9))

        assert sound(outcome_of(verify, log_dir, repair=True, records=True))


class TestMetadata:
    """Which damage is found and mended: tests/unit/metadata/test_repair.py."""

    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        """Its newest entry is torn: a commit that was not acknowledged."""
        log_dir = new_topic(tmp_path / "log")
        append(log_dir, 0, range(9))
        newest = max(Path(log_dir).glob("__cluster_metadata/_delta_log/*.json"))
        newest.with_name(f"{int(newest.stem) + 1:020}.json").write_bytes(b'{"add":{')
        return log_dir

    def test_that_is_sound_has_no_problems(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log")
        _, (report, _) = run(verify, log_dir, repair=True, records=False)

        assert report.topic == "__cluster_metadata"
        assert report.outcome == Outcome(
            counts={"damaged": 0, "repaired": 0}, problems=[], notes=[]
        )

    def test_that_cannot_be_read_is_told_once(self, log_dir: str) -> None:
        code, (report,) = run(verify, log_dir, repair=False, records=False)

        (problem,) = report.as_row()["problems"]
        assert (code, report.topic) == (FAILED, "__cluster_metadata")
        assert problem.count(".json: cannot be understood") == 1

    def test_that_cannot_be_mended_is_told_once(self, log_dir: str) -> None:
        first = min(Path(log_dir).glob("__cluster_metadata/_delta_log/*.json"))
        first.write_bytes(first.read_bytes()[:-9])
        code, (report,) = run(verify, log_dir, repair=True, records=False)

        assert code == FAILED
        assert sum(first.name in one for one in report.as_row()["problems"]) == 1

    def test_that_cannot_be_read_is_in_the_plan(self, log_dir: str) -> None:
        _, (_, report) = run(verify, log_dir, repair=True, records=False, dry_run=True)

        assert "cannot be understood" in report.rows[0]["problem"]

    @pytest.mark.parametrize("is_mending", [False, True])
    def test_is_told_or_mended_under_a_lease(self, log_dir: str, is_mending: bool) -> None:
        context, reports = context_of(log_dir), list[StepReport]()
        options = {"repair": is_mending, "records": False}
        one = JobRun(name="verify", job=verify, options=options, leases=Leases(context))

        assert one.run(context, reports.append) == (DONE if is_mending else FAILED)
        assert [report.topic for report in reports] == ["__cluster_metadata", "t"][: 1 + is_mending]

    def test_is_mended_before_the_topics_are_looked_at(self, log_dir: str) -> None:
        code, (metadata, topic) = run(verify, log_dir, repair=True, records=False)

        assert code == DONE
        assert metadata.outcome is not None
        assert "; put aside as __cluster_metadata/_torn/" in metadata.outcome.notes[0]
        assert topic.outcome == outcome_of(verify, log_dir, repair=False, records=False)

    def test_a_repair_that_stops_halfway_tells_what_it_did(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        max(Path(log_dir).glob("__cluster_metadata/_delta_log/*.json")).unlink()
        image = fold(context_of(log_dir).catalog.log)
        assert image is not None
        torn = Path(log_dir, entry_path(image.version + 1))
        for path in (torn, Path(log_dir, CLUSTER_METADATA, image.fold.runs[0].path)):
            path.write_bytes(b"")
        monkeypatch.setattr("sparklog.metadata.upkeep.repair.commit_fold", lambda *_: None)

        code, (report, *_) = run(verify, log_dir, repair=True, records=False)
        aside, *_, why = report.as_row()["notes"]
        assert (code, why.rpartition(": ")[2]) == (FAILED, "run it again")
        assert aside.endswith(f"; put aside as {CLUSTER_METADATA}/_torn/{torn.name}")

    def test_is_left_alone_by_a_dry_run(self, log_dir: str) -> None:
        before = sorted(Path(log_dir).rglob("*"))
        run(verify, log_dir, repair=True, records=False, dry_run=True)

        assert sorted(Path(log_dir).rglob("*")) == before


class TestLog:
    def test_damage_is_told_with_file_bytes_and_offsets(self) -> None:
        partition = damaged()
        path = partition.path(LOG_SUFFIX, 1)
        code, (_, report) = run(verify, partition, repair=False, records=False, configs=ZERO)

        (problem,) = report.as_row()["problems"]
        assert code == FAILED
        assert problem.startswith(f"{path}: bytes [0, ")
        assert "offsets [6, 8): the checksum of the batch" in problem
        assert report.as_row()["damaged"] == 1

    def test_a_missing_log_is_a_problem(self) -> None:
        partition = two()
        path = partition.path(LOG_SUFFIX, 0)
        partition.remove(path)

        assert check(partition).problems == [f"{path}: the file is missing"]

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("log_crc32c", 1),
            ("batch_count", 1),
            ("record_count", 5),
            ("max_timestamp", 77),
            ("max_timestamp_delta", 0),
            ("codec", 4),
            ("max_leader_epoch", 9),
            ("producer_ids", (1,)),
            ("transactional", True),
        ],
    )
    def test_a_row_that_says_otherwise_is_a_problem(self, column: str, value: object) -> None:
        partition = two()
        partition.with_columns(partition.segments[1], **{column: value})

        (problem,) = check(partition).problems
        assert f"{column} is " in problem
        assert f"its row says {value}" in problem

    def test_bytes_behind_the_end_are_a_problem(self) -> None:
        partition = two()
        path = partition.path(LOG_SUFFIX, 0)
        partition.put(path, partition.bytes_of(path) + b"more")

        (problem,) = check(partition).problems
        assert "bytes, its row says" in problem

    def test_what_was_taken_away_meanwhile_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partition = two()
        first = partition.segments[0]
        stat = partition.files.stat

        def late(path: str) -> Any:
            if not path.endswith(first.log_path):
                return stat(path)
            monkeypatch.undo()
            partition.commit(remove=[first.key], removed_ms=NOW_MS)
            partition.remove(f"{DIRECTORY}/{first.log_path}")
            return stat(path)

        monkeypatch.setattr(partition.files, "stat", late)
        assert check(partition).problems == []

    def test_storage_that_fails_is_a_problem_of_its_segment(self) -> None:
        partition = two()
        assert isinstance(partition.files, MemoryFiles)
        partition.files.fail_next("view")

        (problem,) = repair(partition).problems
        assert problem == "t-0: view was told to fail"


class TestRecords:
    def test_may_be_older_than_the_first_one(self) -> None:
        partition = Partition().append(batch(7, 5))

        assert partition.segments[0].min_timestamp == 7
        assert check(partition, records=True).problems == []

    def test_what_cannot_be_decoded_is_a_problem_that_stays(self) -> None:
        partition = Partition().append(batch(1), batch(2))
        path = partition.path(LOG_SUFFIX)
        log = Log(partition.bytes_of(path)).flip_byte(61).fix_crc()
        partition.put(path, bytes(log.data))
        partition.with_columns(partition.segments[0], log_crc32c=None)

        assert check(partition).problems == []
        (problem,) = repair(partition, records=True).problems
        assert problem.startswith(f"{path}, position 0, offset 0: ")

    def test_control_batches_have_none(self) -> None:
        partition = Partition().append(marker(3))

        assert check(partition, records=True).problems == []

    def test_may_compress_as_well_as_they_like(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.log_reader.slices.DECOMPRESSED_BYTES_MAX", 4000)
        monkeypatch.setattr("sparklog.record.columns.COLUMN_BYTES_MAX", 5000)
        texts = ["x" * 1000] * 9
        partition = Partition().append(keyed_batch(*texts, codec=Codec.ZSTD, batch_bytes=1))

        assert check(partition, records=True).problems == []


class TestIndexes:
    @pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
    def test_damage_missing_files_and_other_sizes_are_problems(self, suffix: str) -> None:
        harms: tuple[Callable[[Partition, str], Partition], ...] = (
            lambda one, path: one.flip_byte(path, 3),
            Partition.remove,
            lambda one, path: one.shrink(path, 1),
            lambda one, path: one.zero(path, 0, len(one.bytes_of(path))),
        )
        for harm in harms:
            partition = two()
            harm(partition, partition.path(suffix, 1))

            problem = f"{partition.path(LOG_SUFFIX, 1)}: its indexes are not those of the log"
            assert check(partition).problems == [problem]

    @pytest.mark.parametrize("column", ["index_path", "time_index_path"])
    def test_a_size_without_a_file_is_a_problem(self, column: str) -> None:
        partition = two()
        partition.with_columns(partition.segments[0], **{column: None})

        assert len(check(partition).problems) == 1

    @pytest.mark.parametrize("size", [None, 5])
    def test_other_indexes_are_there_and_of_their_size(self, size: int | None) -> None:
        partition = two()
        columns = {"txn_index_path": "t-0/txn", "txn_index_bytes": size}
        partition.with_columns(partition.segments[0], **columns)
        said = f"its row says {size} bytes"
        path = f"{DIRECTORY}/t-0/txn"
        assert check(partition).problems == [f"{path}: the file is missing, {said}"]

        partition.files.write_new(path, b"four")
        expected = [] if size is None else [f"{path}: it has 4 bytes, {said}"]
        assert repair(partition).problems == expected


class TestSharedSegment:
    """A slice is held against its row as a file is; the file is longer."""

    PATH = "__shared/018bcfe5-6800-7000-8000-000000000000.log"

    def sliced(self) -> Partition:
        """Offsets 12 to 15 lie in two batches of a shared segment, behind bytes of others."""
        data = batch(1, 2)(0) + batch(3, 4)(2)
        partition = two()
        partition.files.write_new(self.PATH, b"others" + data + b"others")
        entry = edits.segment(
            records=4, log_path=self.PATH, log_position=6, log_bytes=len(data), max_timestamp=4
        )
        edits.append(partition.catalog, TOPIC, entry._replace(max_timestamp_delta=3))
        return partition

    def test_is_sound(self) -> None:
        assert sound(check(self.sliced()))

    def test_that_is_damaged_becomes_a_segment_of_its_own(self) -> None:
        partition = self.sliced().flip_byte(self.PATH, 6 + 70)
        (problem,) = check(partition).problems
        outcome = repair(partition)

        assert problem.startswith(f"{self.PATH}: bytes [0, ")
        assert outcome.notes[-1] == "t-0: offsets [12, 14) are lost"
        new = partition.segments[2]
        assert (new.is_shared, new.base_offset, new.next_offset) == (False, 12, 16)
        assert [record.offset for record in partition.read(12)] == [14, 15]
        assert sound(check(partition))


class TestImage:
    def test_offsets_behind_the_log_end_are_problems(self) -> None:
        partition = two().commit(partitions={0: PartitionState(cleaner_offset=13)})

        (problem,) = check(partition).problems
        assert problem == "t-0: the cleaner offset 13 lies behind the log end offset 12"

    def test_segments_that_overlap_are_a_problem(self) -> None:
        first, second = two().segments
        live = LiveSegments.of(segments_table([first, second._replace(base_offset=5)]))
        log = PartitionLog("t-0", 0, PartitionState(log_end_offset=12), live)
        (problem,) = image_problems(TopicImage(TOPIC, 0, TopicContent(Map({0: log}))))

        assert problem.startswith("t-0: segment of offsets [5, 12)")

    def test_a_partition_that_the_topic_does_not_have_is_a_problem(self) -> None:
        partition = two()
        entry = partition.segments[1]._replace(partition=3, base_offset=0, next_offset=6)
        partition.commit(segments=[entry._replace(log_path="t-3/x")])

        assert "t-3: the topic has no such partition" in check(partition).problems

    def test_that_cannot_be_read_is_a_problem(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = new_topic(tmp_path / "log")
        make_unreadable(monkeypatch, "t")

        assert run(verify, log_dir, repair=False, records=False)[0] == FAILED


class TestFiles:
    def test_files_without_a_row_are_told(self) -> None:
        partition = two()
        name = partition.path(LOG_SUFFIX, 0)
        stranger = name.replace("000000.018b", "000000.018a")
        partition.files.write_new(stranger, b"12345")
        partition.files.write_new(f"{DIRECTORY}/t-0/readme", b"")
        outcome = check(partition)

        assert outcome.problems == []
        orphan, unknown = outcome.notes
        assert orphan.startswith("t: no row names 1 files of 5 bytes, the oldest made ")
        assert unknown == f"{DIRECTORY}/t-0/readme: no file of a segment"

    @pytest.mark.parametrize(("age_ms", "count"), [(0, 3), (10**8, 0)])
    def test_files_of_removed_segments_stay_until_their_delay_is_over(
        self, age_ms: int, count: int
    ) -> None:
        partition = two()
        first = partition.segments[0]
        partition.commit(remove=[first.key], removed_ms=NOW_MS - age_ms)
        for path in (first.log_path, first.index_path, first.time_index_path):
            partition.remove(f"{DIRECTORY}/{path}")
        problems = check(partition).problems

        assert len(problems) == count
        assert all("gone before 86400000 ms after" in problem for problem in problems)

    @pytest.mark.parametrize(("policy", "count"), [("delete", 2), ("compact", 0)])
    def test_offsets_without_a_segment_are_told(self, policy: str, count: int) -> None:
        partition = Partition().append(batch(1)).append(batch(2)).append(batch(3)).append(batch(4))
        gone = [partition.segments[slot].key for slot in (0, 1, 3)]
        partition.commit(remove=gone, removed_ms=NOW_MS)
        partition.delete_records(1)
        outcome = check(partition, configs=ZERO | {"cleanup.policy": policy})

        gaps = ["t-0: offsets [1, 2) have no segment", "t-0: offsets [3, 4) have no segment"]
        assert outcome.notes == gaps[:count]
