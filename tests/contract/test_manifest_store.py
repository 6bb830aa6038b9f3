"""What every manifest store promises: one suite over memory, a local Delta table, and S3."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    LateWriterError,
    OffsetOutOfRangeError,
    SparklogWarning,
    TopicClosedError,
    UsageError,
)
from sparklog.manifest.memory import MemoryManifestStore
from sparklog.manifest.store import (
    RECEIPT_TTL_MS,
    Change,
    Committed,
    Done,
    ManifestStore,
    PartitionState,
    Receipt,
    Snapshot,
)
from sparklog.model import OffsetRange
from sparklog.storage import open_files
from tests.manifests import (
    NOW_MS,
    append,
    appending,
    at,
    changing,
    delta_store,
    indexed,
    interrupted,
    never,
    removing,
    segment,
    spans,
)
from tests.s3 import S3LogDir

Open = Callable[[], ManifestStore]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "delta", pytest.param("s3", marks=pytest.mark.s3)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Open:
    """Opens one and the same manifest, as another process would."""
    match request.param:
        case "memory":
            only = MemoryManifestStore(clock)
            return lambda: only
        case "delta":
            return lambda: delta_store(tmp_path, clock)
        case _:
            log_dir: S3LogDir = request.getfixturevalue("s3_log_dir")
            return lambda: delta_store(open_files(log_dir.uri, log_dir.options), clock)


@pytest.fixture
def store(open_store: Open) -> ManifestStore:
    return open_store()


class TestAppending:
    def test_offsets_continue_the_log(self, store: ManifestStore) -> None:
        first = append(store, segment(records=3), segment(records=4))
        second = append(store, segment(records=5))

        assert first.ranges == (OffsetRange(0, 0, 7),)
        assert second.ranges == (OffsetRange(0, 7, 12),)
        assert spans(store.snapshot()) == [(0, 3), (3, 7), (7, 12)]
        assert store.snapshot().state(0) == PartitionState(log_end_offset=12)

    def test_partitions_appear_together(self, store: ManifestStore) -> None:
        before = store.snapshot()
        done = append(store, segment(2), segment(0), segment(2, records=1))

        assert done == Committed(before.version + 1, (OffsetRange(0, 0, 10), OffsetRange(2, 0, 11)))
        assert store.snapshot().version == done.version
        assert spans(store.snapshot(), 2) == [(0, 10), (10, 11)]
        assert spans(store.snapshot(), 1) == []

    def test_all_columns_come_back(self, store: ManifestStore) -> None:
        entry = replace(indexed(segment(3)), producer_ids=(7, 8), max_timestamp=5, codec=4)
        append(store, segment(3, records=2))
        append(store, entry)

        assert store.snapshot().segments(3).entry(1) == at(2, entry)

    def test_plans_again_when_somebody_else_was_faster(
        self, store: ManifestStore, open_store: Open
    ) -> None:
        other = open_store()
        seen: list[int] = []

        def plan(snapshot: Snapshot) -> Change | Done:
            seen.append(snapshot.state(0).log_end_offset)
            return appending(segment(records=5))(snapshot)

        done = store.commit(interrupted(plan, lambda: append(other, segment(records=3)), times=2))

        assert seen == [0, 3, 6]
        assert done.ranges == (OffsetRange(0, 6, 11),)
        assert spans(open_store().snapshot()) == [(0, 3), (3, 6), (6, 11)]

    def test_what_a_plan_raises_changes_nothing(self, store: ManifestStore) -> None:
        def plan(_: Snapshot) -> Change:
            raise UsageError("not like this")

        with pytest.raises(UsageError, match="not like this"):
            store.commit(plan, app_id="a", version=1)

        assert store.snapshot().version == 0
        assert append(store, segment(), app_id="a", version=1).replayed is False

    @pytest.mark.parametrize("answer", [Done(), Change()])
    def test_nothing_to_do_makes_no_version(
        self, store: ManifestStore, answer: Change | Done
    ) -> None:
        assert store.commit(lambda _: answer) == Committed(0, ())
        assert store.snapshot().version == 0

    def test_says_with_which_partition_count_it_was_planned(self, store: ManifestStore) -> None:
        done = store.commit(appending(segment(), partition_count=4), app_id="a", version=0)

        assert done.partition_count == 4
        assert store.commit(never, app_id="a", version=0).partition_count == 4


class TestExpectedOffsets:
    @pytest.mark.parametrize("base_offset", [9, 0, 11])
    def test_must_be_the_log_end(self, store: ManifestStore, base_offset: int) -> None:
        append(store, segment())

        with pytest.raises(OffsetOutOfRangeError, match="whose end offset is 10"):
            store.commit(changing(segments=[at(base_offset, segment())]))

    def test_somebody_else_took_them(self, store: ManifestStore, open_store: Open) -> None:
        plan = changing(segments=[at(0, segment())])

        with pytest.raises(OffsetOutOfRangeError, match="offset 0 does not continue the log"):
            store.commit(interrupted(plan, lambda: append(open_store(), segment(records=3))))

        assert spans(store.snapshot()) == [(0, 3)]

    def test_may_leave_gaps_where_asked(self, store: ManifestStore) -> None:
        entries = [at(5, segment()), at(20, segment())]
        done = store.commit(changing(segments=entries, allow_gaps=True))

        assert done.ranges == (OffsetRange(0, 5, 30),)
        assert store.snapshot().state(0).log_end_offset == 30

    def test_never_overlap_even_with_gaps_allowed(self, store: ManifestStore) -> None:
        entries = [at(5, segment()), at(14, segment())]

        with pytest.raises(OffsetOutOfRangeError, match="14 does not continue"):
            store.commit(changing(segments=entries, allow_gaps=True))

    def test_a_segment_holds_an_offset(self, store: ManifestStore) -> None:
        with pytest.raises(OffsetOutOfRangeError, match="holds at least one offset"):
            append(store, segment(records=0))


class TestCurrent:
    def test_is_the_snapshot_when_that_is_the_newest(
        self, store: ManifestStore, open_store: Open
    ) -> None:
        append(store, segment())
        snapshot = store.snapshot()
        known = store.current()
        append(open_store(), segment())
        after = store.current()

        assert known is None or known.version == snapshot.version
        assert after is None or after.version == store.snapshot().version


class TestReplays:
    def test_answer_what_the_first_write_got(self, store: ManifestStore, open_store: Open) -> None:
        first = append(store, segment(), segment(1), app_id="a", version=7)
        append(store, segment())
        again = open_store().commit(never, app_id="a", version=7)

        assert again == Committed(first.version + 1, first.ranges, replayed=True)
        assert spans(store.snapshot()) == [(0, 10), (10, 20)]

    def test_a_higher_version_is_a_new_write(self, store: ManifestStore) -> None:
        append(store, segment(), app_id="a", version=7)

        assert append(store, segment(), app_id="a", version=9).ranges == (OffsetRange(0, 10, 20),)
        assert store.commit(never, app_id="a", version=9).ranges == (OffsetRange(0, 10, 20),)

    def test_a_lower_version_is_skipped_with_a_warning(self, store: ManifestStore) -> None:
        append(store, segment(), app_id="a", version=7)
        append(store, segment(), app_id="a", version=8)

        with pytest.warns(SparklogWarning, match="version 7 of 'a' was committed before, up to 8"):
            skipped = store.commit(never, app_id="a", version=7)

        assert skipped == Committed(2, None, replayed=True)

    def test_applications_are_apart(self, store: ManifestStore) -> None:
        append(store, segment(), app_id="a", version=7)

        assert append(store, segment(), app_id="b", version=7).replayed is False
        assert append(store, segment(), app_id="a").replayed is False

    def test_a_key_alone_is_remembered_for_a_day(
        self, store: ManifestStore, clock: ManualClock
    ) -> None:
        start_ms = clock.now_ms()
        append(store, segment(), app_id="key")
        clock.advance(RECEIPT_TTL_MS - (clock.now_ms() - start_ms))
        again = store.commit(never, app_id="key")
        clock.advance(1)
        anew = append(store, segment(), app_id="key")

        assert again == Committed(1, (OffsetRange(0, 0, 10),), replayed=True)
        assert anew == Committed(2, (OffsetRange(0, 10, 20),))

    def test_a_write_without_records_is_remembered(self, store: ManifestStore) -> None:
        first = append(store, app_id="a", version=1)

        assert first == Committed(1, ())
        assert store.commit(never, app_id="a", version=1) == Committed(1, (), replayed=True)

    def test_survive_folding(self, store: ManifestStore, open_store: Open) -> None:
        for version in range(15):
            append(store, segment(), app_id="a", version=version)
        append(store, segment(), app_id="key")
        for _ in range(15):
            append(store, segment())

        again = open_store()
        assert again.commit(never, app_id="a", version=14).ranges == (OffsetRange(0, 140, 150),)
        assert again.commit(never, app_id="key").ranges == (OffsetRange(0, 150, 160),)

    def test_of_keys_that_share_a_commit_are_apart(
        self, store: ManifestStore, open_store: Open, clock: ManualClock
    ) -> None:
        got = {"a": [OffsetRange(0, 0, 4)], "b": [OffsetRange(0, 4, 10)], "none": []}
        store.commit(appending(segment(), receipts=got, partition_count=3))
        append(store, segment(), app_id="versioned", version=1)
        found = open_store().snapshot().receipts({"a", "none", "versioned", "unknown"})

        assert found == {"a": Receipt((OffsetRange(0, 0, 4),), 3), "none": Receipt((), 3)}
        assert store.commit(never, app_id="b").ranges == (OffsetRange(0, 4, 10),)
        clock.advance(2 * RECEIPT_TTL_MS)
        assert store.snapshot().receipts(["a"]) == store.snapshot().receipts([]) == {}

    def test_are_answered_by_a_closed_topic(self, store: ManifestStore) -> None:
        append(store, segment(), app_id="a", version=1)
        store.commit(changing(closed_ms=NOW_MS))

        assert store.commit(never, app_id="a", version=1).ranges == (OffsetRange(0, 0, 10),)


class TestRefusals:
    def test_a_closed_topic(self, store: ManifestStore, open_store: Open) -> None:
        store.commit(changing(closed_ms=NOW_MS))

        assert store.snapshot().closed_ms == NOW_MS
        with pytest.raises(TopicClosedError):
            append(open_store(), segment())

    def test_a_topic_that_is_closed_meanwhile(self, store: ManifestStore, open_store: Open) -> None:
        def close() -> None:
            open_store().commit(changing(closed_ms=NOW_MS))

        with pytest.raises(TopicClosedError):
            store.commit(interrupted(appending(segment()), close))

    def test_files_older_than_the_vacuum_horizon(self, store: ManifestStore) -> None:
        store.commit(changing(vacuum_horizon_ms=NOW_MS))

        with pytest.raises(LateWriterError, match="before the vacuum horizon"):
            append(store, segment(made_ms=NOW_MS - 1))
        assert append(store, segment(made_ms=NOW_MS)).ranges == (OffsetRange(0, 0, 10),)

    def test_a_horizon_that_comes_meanwhile(self, store: ManifestStore, open_store: Open) -> None:
        def vacuum() -> None:
            open_store().commit(changing(vacuum_horizon_ms=NOW_MS + 1))

        with pytest.raises(LateWriterError):
            store.commit(interrupted(appending(segment()), vacuum))

    def test_an_index_older_than_the_horizon_beside_a_known_log(self, store: ManifestStore) -> None:
        old = segment(made_ms=NOW_MS - 1)
        append(store, old)
        store.commit(changing(vacuum_horizon_ms=NOW_MS))

        with pytest.raises(LateWriterError, match=r"\.index: written before"):
            store.commit(changing(replace=[indexed(old, NOW_MS - 1)]))
        store.commit(changing(replace=[indexed(old, NOW_MS)]))

    def test_a_name_without_a_time_has_no_age(self, store: ManifestStore) -> None:
        store.commit(changing(vacuum_horizon_ms=NOW_MS))
        kafkas = segment(log_path=f"t-0/{0:020}.log")

        assert append(store, kafkas).ranges == (OffsetRange(0, 0, 10),)

    def test_a_leader_epoch_of_before_an_import(self, store: ManifestStore) -> None:
        store.commit(changing(partitions={1: PartitionState(leader_epoch=4)}))

        with pytest.raises(FencedLeaderEpochError, match="epoch 3, it is 4 now"):
            store.commit(appending(segment(1), leader_epochs={1: 3}))
        store.commit(appending(segment(1), leader_epochs={1: 4, 0: 0}))


class TestRemoving:
    def test_a_removed_segment_is_not_live(self, store: ManifestStore, open_store: Open) -> None:
        first, second = segment(), segment()
        append(store, first, second)
        store.commit(removing(first.log_path))

        assert spans(store.snapshot()) == [(10, 20)]
        assert spans(open_store().snapshot()) == [(10, 20)]

    def test_the_log_end_outlives_the_segments(
        self, store: ManifestStore, open_store: Open
    ) -> None:
        entry = segment()
        append(store, entry, segment(1))
        store.commit(removing(entry.log_path))

        assert open_store().snapshot().state(0).log_end_offset == 10
        assert append(store, segment(records=1)).ranges == (OffsetRange(0, 10, 11),)

    def test_others_may_take_their_place(self, store: ManifestStore) -> None:
        entries = [segment(), segment(), segment()]
        append(store, *entries)
        merged = at(10, segment(records=12))
        paths = [entry.log_path for entry in entries[1:]]
        done = store.commit(changing(segments=[merged], remove=paths, removed_ms=NOW_MS))

        assert done.ranges == ()
        assert spans(store.snapshot()) == [(0, 10), (10, 22)]
        assert store.snapshot().state(0).log_end_offset == 30

    def test_in_their_place_nothing_overlaps_what_stays(self, store: ManifestStore) -> None:
        entries = [segment(), segment(), segment()]
        append(store, *entries)
        paths = [entries[0].log_path, entries[2].log_path]
        plan = changing(segments=[at(0, segment(records=25))], remove=paths, removed_ms=NOW_MS)

        with pytest.raises(OffsetOutOfRangeError, match="offset 10 overlaps one that ends at 25"):
            store.commit(plan)

    def test_what_is_not_live_cannot_be_removed(self, store: ManifestStore) -> None:
        entry = segment()
        append(store, entry)
        store.commit(removing(entry.log_path))

        with pytest.raises(CommitConflictError, match="no longer live"):
            store.commit(removing(entry.log_path))

    def test_compaction_that_loses_a_race_is_refused(
        self, store: ManifestStore, open_store: Open
    ) -> None:
        entry = segment()
        append(store, entry)
        plan = changing(
            segments=[at(0, segment(records=5))], remove=[entry.log_path], removed_ms=NOW_MS
        )

        with pytest.raises(CommitConflictError, match="no longer live"):
            store.commit(interrupted(plan, lambda: open_store().commit(removing(entry.log_path))))

        assert spans(store.snapshot()) == []


class TestForgetting:
    def test_a_removed_segment_is_known_until_it_is_forgotten(
        self, store: ManifestStore, open_store: Open
    ) -> None:
        first, second = segment(), segment()
        append(store, first, second)
        store.commit(removing(first.log_path))

        assert removed(open_store()) == [first.log_path]
        store.commit(changing(forget=[first.log_path]))
        assert removed(store) == removed(open_store()) == []
        assert spans(open_store().snapshot()) == [(10, 20)]

    def test_the_log_end_outlives_it(self, store: ManifestStore, open_store: Open) -> None:
        entry = segment()
        append(store, entry)
        store.commit(removing(entry.log_path))
        store.commit(changing(forget=[entry.log_path]))

        assert open_store().snapshot().state(0).log_end_offset == 10

    def test_a_live_segment_is_not_forgotten(self, store: ManifestStore) -> None:
        entry = segment()
        append(store, entry)
        store.commit(changing(forget=[entry.log_path, "nowhere"]))

        assert spans(store.snapshot()) == [(0, 10)]

    def test_survives_folding(self, store: ManifestStore, open_store: Open) -> None:
        entries = [segment() for _ in range(30)]
        for entry in entries:
            append(store, entry)
            store.commit(removing(entry.log_path))
        paths = [entry.log_path for entry in entries]
        store.commit(changing(forget=paths[:25]))

        assert removed(open_store()) == sorted(paths[25:])
        assert open_store().snapshot().state(0).log_end_offset == 300

    def test_only_expired_receipts_go(
        self, store: ManifestStore, open_store: Open, clock: ManualClock
    ) -> None:
        append(store, segment(), app_id="a", version=1)
        append(store, segment(), app_id="old")
        clock.advance(RECEIPT_TTL_MS // 2)
        append(store, segment(), app_id="young")
        clock.advance(RECEIPT_TTL_MS // 2 + 1)
        now_ms = clock.now_ms()

        assert open_store().snapshot().receipts_expired(now_ms) == 1
        store.commit(changing(receipts_before_ms=now_ms))
        assert open_store().snapshot().receipts_expired(now_ms + RECEIPT_TTL_MS) == 1
        assert store.commit(never, app_id="young").ranges == (OffsetRange(0, 20, 30),)
        assert store.commit(never, app_id="a", version=1).ranges == (OffsetRange(0, 0, 10),)

    def test_an_empty_table_has_no_leftovers(self, store: ManifestStore) -> None:
        assert store.leftovers() == []


def removed(store: ManifestStore) -> list[str]:
    """The removed segments whose rows are still there."""
    return sorted(store.snapshot().removed.column("log_path").to_pylist())


class TestReplacing:
    def test_swaps_an_index(self, store: ManifestStore, open_store: Open) -> None:
        entry = segment()
        append(store, entry, segment())
        swapped = indexed(entry)
        done = store.commit(changing(replace=[swapped]))

        assert done.ranges == ()
        assert open_store().snapshot().segments(0).entry(0) == swapped
        assert spans(store.snapshot()) == [(0, 10), (10, 20)]

    def test_changes_no_offsets(self, store: ManifestStore) -> None:
        entry = segment()
        append(store, entry)

        with pytest.raises(UsageError, match="a replacement holds other offsets"):
            store.commit(changing(replace=[at(1, entry)]))

    def test_what_is_not_live_cannot_be_replaced(self, store: ManifestStore) -> None:
        with pytest.raises(CommitConflictError, match="no longer live"):
            store.commit(changing(replace=[segment()]))


class TestPartitionStates:
    def test_only_grow(self, store: ManifestStore, open_store: Open) -> None:
        append(store, segment())
        high = PartitionState(4, 12, 3, 2, 1)
        store.commit(changing(partitions={0: high}))
        store.commit(changing(partitions={0: PartitionState(3, 11, 4, 1, 0)}))

        assert store.snapshot().state(0) == PartitionState(4, 12, 4, 2, 1)
        assert open_store().snapshot().state(0) == PartitionState(4, 12, 4, 2, 1)
        assert append(store, segment()).ranges == (OffsetRange(0, 12, 22),)

    def test_the_start_may_lie_inside_a_segment(self, store: ManifestStore) -> None:
        append(store, segment())
        store.commit(changing(partitions={0: PartitionState(log_start_offset=4)}))

        assert store.snapshot().state(0).log_start_offset == 4
        assert spans(store.snapshot()) == [(0, 10)]

    def test_the_start_never_lies_behind_the_end(self, store: ManifestStore) -> None:
        append(store, segment())

        with pytest.raises(OffsetOutOfRangeError, match="start offset 11 would lie behind"):
            store.commit(changing(partitions={0: PartitionState(log_start_offset=11)}))
        store.commit(appending(segment(), partitions={0: PartitionState(log_start_offset=11)}))

    def test_of_a_partition_never_written_to_is_zero(self, store: ManifestStore) -> None:
        assert store.snapshot().state(5) == PartitionState()


class TestSnapshots:
    def test_nothing_in_one_changes(self, store: ManifestStore) -> None:
        entry = segment()
        append(store, entry)
        before = store.snapshot()
        append(store, segment(), segment(1))
        store.commit(changing(replace=[indexed(entry)]))
        store.commit(removing(entry.log_path))
        store.commit(changing(closed_ms=NOW_MS, vacuum_horizon_ms=5))

        assert (before.version, before.closed_ms, before.vacuum_horizon_ms) == (1, None, 0)
        assert before.states == {0: PartitionState(log_end_offset=10)}
        assert list(before.segments(0)) == [entry]

    def test_live_segments_are_sorted(self, store: ManifestStore) -> None:
        for partition in (2, 0, 1, 0):
            append(store, segment(partition))

        live = store.snapshot().live.select(["partition", "base_offset"]).to_pydict()
        assert [*zip(*live.values(), strict=True)] == [(0, 0), (0, 10), (1, 0), (2, 0)]

    def test_the_horizon_only_grows(self, store: ManifestStore) -> None:
        store.commit(changing(vacuum_horizon_ms=7))
        store.commit(changing(vacuum_horizon_ms=5))

        assert store.snapshot().vacuum_horizon_ms == 7
