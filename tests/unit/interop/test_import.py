"""A broker's log directory becomes topics, and again. Refusals: test_import_refused.py."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.interop import examine
from sparklog.interop.imports import import_log
from sparklog.interop.imports.import_log import ImportOptions
from sparklog.interop.imports.import_partition import ImportedPartition
from sparklog.log_writer import WriteOptions, plan_write
from sparklog.metadata.state.edit import Edit, OpenTransaction, PartitionState, TopicEdit
from sparklog.model import READ_COMMITTED, Codec
from tests.broker_files import (
    HORIZON,
    batch,
    write_epochs,
    write_indexes,
    write_segment,
)
from tests.compat.cases import BROKER
from tests.logs import append
from tests.opening import note_looks
from tests.partitions import message_set
from tests.unit.interop.conftest import NO_PRODUCERS, TRUST, Interop


def state(interop: Interop) -> PartitionState:
    return interop.log().state


class TestFirst:
    @pytest.mark.parametrize("options", [ImportOptions(), TRUST, ImportOptions(link=False)])
    def test_offsets_epochs_and_ends_are_kept(
        self, options: ImportOptions, interop: Interop
    ) -> None:
        folder = interop.partition()
        write_indexes(write_segment(folder, 5, batch(5), batch(7, epoch=3)))
        write_indexes(write_segment(folder, 9, batch(9, codec=Codec.GZIP)))
        (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 5\n3 7\n")

        (report,) = interop.run(options)
        assert (report.problem, report.segments) == (None, 2)
        assert interop.offsets() == [5, 6, 7, 8, 9, 10]
        assert state(interop) == PartitionState(5, 11, 4, 0, 11)

    def test_sealed_segments_are_linked_and_the_newest_is_copied(self, interop: Interop) -> None:
        folder = interop.partition()
        sealed = write_segment(folder, 0, batch(0))
        newest = write_segment(folder, 2, batch(2))
        interop.run()

        assert (sealed.stat().st_nlink, newest.stat().st_nlink) == (2, 1)

    def test_an_empty_log_says_where_it_ends(self, interop: Interop) -> None:
        write_segment(interop.partition(), 77)
        interop.run()

        assert interop.offsets() == []
        assert state(interop) == PartitionState(77, 77, 0, 0, 77)

    def test_a_directory_without_segments_is_an_empty_partition(self, interop: Interop) -> None:
        interop.partition("t-1")
        interop.run(TRUST)

        assert state(interop) == PartitionState()
        assert interop.catalog.topic("t").num_partitions == 2

    def test_checkpoints_of_the_directory_count(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0, 10))
        (interop.broker / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
        (interop.broker / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
        interop.run()

        assert interop.offsets() == [4, 5, 6, 7, 8, 9]
        assert state(interop).cleaner_offset == 8
        configs = interop.catalog.topic("t").configs
        assert configs == {"cleanup.policy": "compact", "retention.ms": "-1"}

    def test_a_batch_that_was_cut_by_a_crash_is_left_out(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0), batch(2)[:-1])

        (report,) = interop.run()
        assert report.torn_bytes == len(batch(2)) - 1
        assert interop.offsets() == [0, 1]

    def test_zeros_at_the_end_are_left_out(
        self, interop: Interop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A power cut leaves them, and `preallocate=true`."""
        monkeypatch.setattr(examine, "WINDOW_BYTES", 2048)
        write_segment(interop.partition(), 0, batch(0), batch(2), bytes(5000))
        write_segment(interop.partition("t-1"), 0, batch(0), bytes(5000), batch(2))

        sound, damaged = interop.run()
        assert (sound.torn_bytes, interop.offsets()) == (5000, [0, 1, 2, 3])
        assert "size 0 is below 14" in str(damaged.problem)

    def test_only_a_batch_that_was_cut_is_nothing(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0)[:-1])
        interop.run()

        assert state(interop).log_end_offset == 0

    def test_tombstones_keep_their_horizon(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(4, attributes=HORIZON), batch(6))
        interop.run()

        (entry,) = interop.log().segments
        assert entry.delete_horizon_ms == 1_700_000_000_004
        assert (entry.record_count, entry.min_timestamp) == (4, 1_700_000_000_004)

    @pytest.mark.parametrize(("cleaned", "epochs"), [(0, [None, 1, 3, 3]), (4, [None, None, 3, 3])])
    def test_epochs_of_what_is_not_read_are_in_the_checkpoint(
        self, cleaned: int, epochs: list[int | None], interop: Interop
    ) -> None:
        folder = interop.partition()
        for base, epoch in ((0, 0), (2, 1), (4, 3), (6, 3)):
            write_indexes(write_segment(folder, base, batch(base, epoch=epoch)))
        (folder / "leader-epoch-checkpoint").write_text("0\n2\n1 2\n3 4\n")
        (folder / f"{6:020d}.snapshot").write_bytes(NO_PRODUCERS)
        (interop.broker / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {cleaned}\n")
        interop.run(TRUST)

        assert [entry.max_leader_epoch for entry in interop.log().segments] == epochs

    @pytest.mark.parametrize(("attributes", "first"), [(0, 0), (HORIZON, 1)])
    def test_the_first_time_of_what_is_not_read_is_in_its_first_header(
        self, attributes: int, first: int, interop: Interop
    ) -> None:
        folder = interop.partition()
        write_epochs(folder)
        write_indexes(write_segment(folder, 0, batch(0, attributes=attributes), batch(2)))
        write_segment(folder, 4, batch(4))
        (folder / f"{4:020d}.snapshot").write_bytes(NO_PRODUCERS)
        interop.run(TRUST)

        entry, newest = interop.log().segments
        assert entry.record_count is None
        assert entry.min_timestamp == 1_700_000_000_000 + first
        assert newest.min_timestamp == 1_700_000_000_004

    @pytest.mark.parametrize("magic", [0, 1])
    def test_the_first_time_of_a_message_set_is_in_its_first_header(
        self, magic: int, interop: Interop
    ) -> None:
        folder = interop.partition()
        write_epochs(folder)
        entries = message_set(*range(5, 65), magic=magic)(0)
        sealed = write_segment(folder, 0, entries)
        write_indexes(sealed)
        sealed.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 64, 59))
        write_segment(folder, 60, batch(60))
        (folder / f"{60:020d}.snapshot").write_bytes(NO_PRODUCERS)
        interop.run(TRUST)

        entry, _ = interop.log().segments
        assert (entry.record_count, entry.min_timestamp) == (None, 5 if magic else -1)

    @pytest.mark.parametrize("size", [9, 17, 40])
    def test_what_is_no_whole_batch_is_read_and_refused(self, size: int, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        sealed = write_segment(folder, 0, batch(0), batch(2))
        write_indexes(sealed)
        sealed.write_bytes(batch(0)[:size])
        write_segment(folder, 4, batch(4))
        (folder / f"{4:020d}.snapshot").write_bytes(NO_PRODUCERS)

        assert "truncated" in interop.problem(TRUST)

    @pytest.mark.parametrize("base", [4, 9])
    def test_what_begins_with_another_batch_is_read(self, base: int, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        sealed = write_segment(folder, 0, batch(0))
        write_indexes(sealed)
        sealed.write_bytes(batch(base))
        write_segment(folder, 4, batch(4))
        (folder / f"{4:020d}.snapshot").write_bytes(NO_PRODUCERS)

        assert "and the next segment begins at 4" in interop.problem(TRUST)

    def test_chosen_topics_and_configs(self, interop: Interop) -> None:
        for name in (
            "a-0",
            "b-0",
            "__consumer_offsets-0",
            "__metrics-0",
            "c-0.0123456789abcdef0123456789abcdef-delete",
        ):
            write_segment(interop.partition(name), 0, batch(0))
        interop.run(ImportOptions(topics=["b"], config={"retention.ms": "5"}))

        assert list(interop.catalog.topics()) == ["b"]
        assert interop.catalog.topic("b").configs == {"retention.ms": "5"}
        interop.run()
        assert sorted(interop.catalog.topics()) == ["__metrics", "a", "b"]

    def test_many_topics_cost_no_more_looks_at_the_metadata_than_one(
        self, interop: Interop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        interop.partition("a-0")
        looks = note_looks(monkeypatch)
        interop.run(TRUST)
        count = len(looks)
        for name in ("b-0", "c-0"):
            interop.partition(name)
        replace(interop, log_dir=tmp_path / "other").run(TRUST)

        assert len(looks) == 2 * count

    def test_a_topic_that_is_there_grows(self, interop: Interop) -> None:
        AdminClient(str(interop.log_dir)).create_topics([NewTopic("t", 1)])
        write_segment(interop.partition("t-2"), 0, batch(0))
        interop.run()

        assert interop.catalog.topic("t").num_partitions == 3

    def test_everything_that_a_broker_kept(self, interop: Interop, tmp_path: Path) -> None:
        checked = replace(interop, broker=BROKER)
        trusted = replace(checked, log_dir=tmp_path / "trusted")
        assert {report.problem for report in checked.run()} == {None}
        assert {report.problem for report in trusted.run(TRUST)} == {None}

        for name in checked.catalog.topics():
            assert checked.offsets(name) == trusted.offsets(name)
            committed = checked.offsets(name, READ_COMMITTED)
            assert committed == trusted.offsets(name, READ_COMMITTED)
            assert len(checked.offsets(name)) - len(committed) == 10 * (name == "transactional")


class TestAgain:
    def test_what_came_since_is_a_segment_of_its_own(self, interop: Interop) -> None:
        folder = interop.partition()
        newest = write_segment(folder, 0, batch(0))
        interop.run()
        newest.write_bytes(batch(0) + batch(2))
        write_segment(folder, 4, batch(4))

        (report,) = interop.run()
        assert report.added == (0, 2, 6)
        assert report.segments == 2
        assert interop.offsets() == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize(("cleaned", "is_told"), [(2, False), (3, True)])
    def test_tombstones_that_the_broker_may_have_removed_are_told(
        self, cleaned: int, is_told: bool, interop: Interop
    ) -> None:
        (interop.broker / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {cleaned}\n")
        write_segment(interop.partition(), 0, batch(0))
        (first,) = interop.run()
        write_segment(interop.partition(), 2, batch(2))
        (second,) = interop.run()

        told = (
            "t-0: the broker has cleaned the log up to offset 3, and up to 2 was imported before: "
            "keys that were deleted since may still be here"
        )
        assert (first.warning, second.warning) == (None, told if is_told else None)

    def test_offsets_that_are_not_in_the_directory_are_told(self, interop: Interop) -> None:
        """Of a topic with remote storage a broker keeps the log start in the checkpoint."""
        (interop.broker / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
        path = write_segment(interop.partition(), 5, batch(5))
        (first,) = interop.run()
        path.unlink()
        write_segment(interop.partition(), 9, batch(9))
        (second,) = interop.run()
        (third,) = interop.run()

        why = "the broker has deleted them, or has them only in remote storage"
        where = f"not in the directory: {why}"
        assert first.warning == f"t-0: offsets 2 to 4 are {where}"
        assert second.warning == f"t-0: offsets 7 to 8 are {where}"
        assert (third.warning, interop.offsets()) == (None, [5, 6, 9, 10])

    def test_nothing_new_is_nothing(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0))
        interop.run()
        before = state(interop)

        (report,) = interop.run()
        assert report.segments == 0
        assert state(interop) == before

    def test_a_log_that_grew_by_a_new_segment_only(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0))
        interop.run()
        write_segment(folder, 2, batch(2))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3]

    def test_a_batch_that_was_imported_in_part_is_refused(self, interop: Interop) -> None:
        newest = write_segment(interop.partition(), 0, batch(0))
        interop.run()
        newest.write_bytes(batch(0, 4))

        assert "was imported in part, up to 2: this is another log" in interop.problem()

    @pytest.mark.parametrize("base", [0, 3])
    def test_a_log_that_ends_before_is_another_one(self, base: int, interop: Interop) -> None:
        write_segment(interop.partition(), base, batch(base), batch(base + 2))
        interop.run()
        write_segment(interop.partition(), base, batch(base))

        assert f"the log ends at {base + 2}, and up to {base + 4}" in interop.problem()
        write_segment(interop.partition(), base)
        assert f"the log ends at {base}, and up to {base + 4}" in interop.problem()

    def test_refused_where_records_were_produced_since(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0, epoch=6))
        interop.run()
        append(interop.log_dir, 0, ["a", "b", "c"])

        assert "records were produced here since" in interop.problem()
        catalog = interop.catalog
        assert plan_write(catalog, "t", WriteOptions()).leader_epochs == {0: 7}
        assert interop.offsets() == [0, 1, 2, 3, 4]

    def test_what_somebody_else_has_written_to_is_refused_alone(
        self, interop: Interop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("t-0", "t-1", "u-0"):
            write_segment(interop.partition(name), 0, batch(0))

        def late(job: import_log.ImportWork) -> ImportedPartition:
            if str(job.topic_partition) == "t-0":
                append(interop.log_dir, 1, ["theirs"])
            return take(job)

        take = import_log.take
        monkeypatch.setattr(import_log, "take", late)
        problems = {str(one.topic_partition): str(one.problem) for one in interop.run()}

        refused = "partition 1: another process wrote to it during the import"
        assert problems == {"t-0": "None", "t-1": refused, "u-0": "None"}
        assert interop.offsets("t") == interop.offsets("u") == [0, 1]

    def test_refused_where_open_transactions_have_changed_meanwhile(
        self, interop: Interop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_segment(interop.partition(), 0, batch(0))
        interop.run()
        opened = TopicEdit(transactions={0: (OpenTransaction(7, 0),)})
        edit = Edit(operation="TEST", topics={interop.catalog.topic("t").topic_id: opened})

        def late(job: import_log.ImportWork) -> ImportedPartition:
            interop.catalog.log.commit(lambda _: edit)
            return take(job)

        take = import_log.take
        monkeypatch.setattr(import_log, "take", late)

        assert "another process wrote to it during the import" in interop.problem()

    def test_all_topics_are_one_commit(self, interop: Interop) -> None:
        for name in ("t-0", "t-1", "u-0"):
            write_segment(interop.partition(name), 0, batch(0))
        interop.run()

        log = interop.catalog.log
        entry = log.entries.read(log.image().version)
        assert entry is not None
        assert entry.operation == "IMPORT"
        (edit,) = entry.edits
        assert edit.parameters["topics"] == "t, u"
        assert edit.parameters["source"] == str(interop.broker)
        assert edit.parameters["records"] == "6"
