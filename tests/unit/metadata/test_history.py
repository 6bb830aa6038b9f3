"""Past commits, and the numbers of any of them: compared with images that were kept."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import (
    CorruptMetadataError,
    OffsetOutOfRangeError,
    UsageError,
    VersionOutOfRangeError,
)
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.history import files as h
from sparklog.metadata.history.read import (
    PartitionCut,
    check_readable,
    cut_at,
    history,
    oldest_cut,
    oldest_version,
    record_at,
    version_at,
)
from sparklog.metadata.past import PastCatalog
from sparklog.metadata.state.edit import NEW_PARTITION
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage.local import LocalFiles
from sparklog.storage.log_dir import META_PROPERTIES, LogDir, Retention, encode
from tests.logs import catalog
from tests.metadata_logs import TOPIC_ID, World
from tests.repairing import flip

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(LocalFiles(str(tmp_path)))


def cut_of(image: Image) -> dict[int, PartitionCut]:
    topic = image.topic(TOPIC_ID)
    assert topic is not None
    return {number: PartitionCut.of(log) for number, log in topic.partitions.items()}


def produced(world: World, count: int, fold_every: int) -> list[Image]:
    """Commit and fold now and then; return the image of every version, by version."""
    entry = world.log.entries.read(0)
    assert entry is not None
    first = [Image().apply(entry.edits, entry.stamp)]
    images = {1: world.fresh().image([TOPIC_ID])}
    for number in range(count):
        version = world.remove_first(number % 4) if number % 9 == 8 else world.produce()
        images[version] = world.log.image([TOPIC_ID])
        if number % fold_every == fold_every - 1:
            folded = fold(world.log)
            assert folded is not None
            images[folded.version] = world.log.image([TOPIC_ID])
    return [*first, *(images[version] for version in sorted(images))]


class TestHistory:
    def test_tells_every_commit_newest_first(self, world: World) -> None:
        images = produced(world, 30, 7)

        found = list(history(world.log))

        assert [one.version for one in found] == list(range(len(images)))[::-1]
        assert [one.stamp for one in found] == [image.stamp for image in images][::-1]
        assert {one.operation for one in found[1:20]} == {"PRODUCE", "FOLD", "DELETE RECORDS"}
        assert found[-2].operation == "CREATE TOPICS"
        assert found[0].previous == found[1].id
        assert found[3].parameters.keys() <= {"topics", "cover", "rows", "who"}

    def test_applied_makes_the_image(self, world: World) -> None:
        images = produced(world, 30, 7)

        past = Image()
        for one in history(world.fresh(), newest_first=False):
            past = past.apply(one.edits, one.stamp)

        assert cut_of(past) == cut_of(images[-1])

    def test_of_a_range(self, world: World) -> None:
        produced(world, 30, 7)

        assert [one.version for one in history(world.log, 3, 6)] == [6, 5, 4, 3]
        assert [one.version for one in history(world.log, 28, newest_first=False)][:2] == [28, 29]
        assert [one.version for one in history(world.log, limit=2, newest_first=False)] == [0, 1]
        assert list(history(world.log, 1000)) == []

    def test_of_one_version(self, world: World) -> None:
        images = produced(world, 10, 4)

        assert [record_at(world.log, v).stamp for v in (0, 3, 9)] == [
            images[v].stamp for v in (0, 3, 9)
        ]
        with pytest.raises(VersionOutOfRangeError, match="version 99 .* allowed are 0 to"):
            record_at(world.log, 99)

    def test_row_groups_outside_the_range_are_not_read(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(h, "GROUP_ROWS", 4)
        produced(world, 20, 20)
        read_group, read = pq.ParquetFile.read_row_group, list[int]()

        def noted(file: pq.ParquetFile, number: int, **options: Any) -> pa.Table:
            read.append(number)
            return read_group(file, number, **options)

        monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)

        assert [one.version for one in history(world.log, 9, 12)] == [12, 11, 10, 9]
        assert read == [3, 2]

    def test_a_missing_entry_is_told(self, world: World) -> None:
        world.produce(3)
        (Path(world.files.uri) / f"__cluster_metadata/_delta_log/{2:020}.json").unlink()

        with pytest.raises(CorruptMetadataError, match=f"{2:020}.json is missing"):
            list(history(world.log))

    @pytest.mark.parametrize("newest_first", [True, False])
    def test_a_slow_reader_goes_on_where_entries_were_folded_and_cleaned(
        self, world: World, newest_first: bool
    ) -> None:
        """As a pager that nobody scrolls: the entries go while it waits."""
        last = world.produce(5)
        slow = history(world.log, newest_first=newest_first)
        seen = [next(slow).version, next(slow).version]
        for _ in range(2):
            fold(world.log)
            world.age()
            world.produce()
        assert clean(world.log) is not None
        seen += [one.version for one in slow]

        assert seen == sorted(range(last + 1), reverse=newest_first)


class TestRuns:
    def test_small_ones_become_large_ones(self, world: World) -> None:
        produced(world, 64, 2)
        runs = world.log.image().fold.history

        assert len(runs) <= 7
        assert [run.from_version for run in runs[1:]] == [run.to_version + 1 for run in runs[:-1]]

    def test_large_ones_stay(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 10)
        produced(world, 64, 2)

        assert max(run.rows for run in world.log.image().fold.history) <= 10

    def test_those_of_many_bytes_stay(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fold has the rows of all runs that it joins in memory."""
        monkeypatch.setattr(h, "MERGED_BYTES_MAX", 1)
        produced(world, 8, 2)

        assert [run.rows for run in world.log.image().fold.history] == [4, 3, 3, 3]

    @pytest.mark.parametrize(("at", "told"), [(-20, ".* footer has CRC-32C"), (60, "")])
    def test_a_damaged_one_is_told_where_it_is_read(self, world: World, at: int, told: str) -> None:
        produced(world, 9, 9)
        flip(world, f"{CLUSTER_METADATA}/{world.log.image().fold.history[0].path}", at)

        with pytest.raises(CorruptMetadataError, match=f"_history/{told}"):
            list(history(world.log))

    @pytest.mark.parametrize(
        "harm", [partial(flip, at=-20), lambda world, path: world.files.delete(path)]
    )
    def test_a_damaged_or_missing_one_does_not_keep_from_folding(
        self, world: World, harm: Callable[[World, str], None]
    ) -> None:
        """A backup that was copied while others folded may lack one."""
        produced(world, 9, 9)
        (run,) = world.log.image().fold.history
        harm(world, f"{CLUSTER_METADATA}/{run.path}")
        world.produce(9)
        keeping(world, Retention(ms=0))

        folded = fold(world.fresh())

        assert folded is not None
        assert [one == run for one in folded.fold.history] == [True, False]


def keeping(world: World, retention: Retention) -> None:
    """Let the log dir keep so much history."""
    world.files.overwrite(META_PROPERTIES, encode(LogDir(1, "an-id", retention)))


class TestRetention:
    def test_old_runs_go_by_the_entries_own_times(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)
        produced(world, 10, 10)
        world.clock.advance(8 * DAY_MS)
        world.produce(10)
        folded = fold(world.log)

        assert folded is not None
        assert oldest_version(folded) == 12
        assert [run.path.split("/")[0] for run in folded.fold.history] == ["_history", "_cuts"]
        with pytest.raises(VersionOutOfRangeError, match="allowed are 12 to"):
            record_at(world.log, 11)

    def test_and_by_their_size(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)
        produced(world, 10, 10)
        world.produce(2)
        keeping(world, Retention(bytes=1))
        folded = fold(world.log)

        assert folded is not None
        assert oldest_version(folded) == 12

    @pytest.mark.parametrize(
        "kept", [Retention(ms=9 * DAY_MS), Retention(ms=-1), Retention(-1, -1)]
    )
    def test_is_that_of_the_log_dir(
        self, world: World, monkeypatch: pytest.MonkeyPatch, kept: Retention
    ) -> None:
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)
        produced(world, 10, 10)
        keeping(world, kept)
        world.clock.advance(8 * DAY_MS)
        world.produce(10)
        folded = fold(world.log)

        assert folded is not None
        assert oldest_version(folded) == 0

    def test_young_ones_are_not_read(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """An object store would have to send a whole run to each fold."""
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)
        produced(world, 10, 10)
        world.produce(2)
        monkeypatch.setattr(h, "open_run", None)
        folded = fold(world.log)

        assert folded is not None
        assert oldest_version(folded) == 0

    def test_a_history_that_does_not_reach_up_to_the_entries_is_dropped(self, world: World) -> None:
        produced(world, 10, 10)
        world.produce(3)
        before = world.log.image().fold
        (run,) = before.history
        entries = [h.record_of(h.required(world.log, one).decoded()) for one in (13, 14, 15)]
        (fresh,) = h.continued(
            world.log,
            replace(before, history=(run._replace(to_version=9),)),
            entries,
            before.runs,
        )[:1]

        assert (fresh.from_version, fresh.to_version) == (13, 15)


class TestVersionAt:
    def test_is_the_newest_that_is_not_younger(self, world: World) -> None:
        images = produced(world, 40, 11)

        for image in images:
            later = [one for one in images if one.stamp.timestamp_ms == image.stamp.timestamp_ms]
            assert version_at(world.log, image.stamp.timestamp_ms) == later[-1].version
        between = images[5].stamp.timestamp_ms + 1
        assert version_at(world.log, between) == 5

    def test_of_the_future_is_the_newest(self, world: World) -> None:
        assert version_at(world.log, 2**60) == 1

    def test_before_the_log_is_refused(self, world: World) -> None:
        produced(world, 5, 5)
        oldest = history(world.log, 0, 0)
        told = f"as of 5 .ms.: the oldest one, 0, is of {next(oldest).timestamp_ms} .ms."

        with pytest.raises(VersionOutOfRangeError, match=told):
            version_at(world.log, 5)


class TestCutAt:
    @pytest.mark.parametrize("cut_every", [4, 10, 1000])
    def test_is_what_the_image_was(
        self, world: World, monkeypatch: pytest.MonkeyPatch, cut_every: int
    ) -> None:
        monkeypatch.setattr(h, "CUT_EVERY", cut_every)
        images = produced(world, 40, 7)

        for image in images[1:]:
            cut = cut_at(world.log, image.version)
            assert dict(cut.topics[TOPIC_ID].partitions) == cut_of(image)
        assert cut_at(world.log, 0).topics == {}

    def test_has_no_partition_without_records(self, world: World) -> None:
        assert cut_at(world.log, 1).topics[TOPIC_ID].partitions == {}

    def test_cuts_are_few(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(h, "CUT_EVERY", 10)
        produced(world, 60, 3)
        cuts = [run for run in world.log.image().fold.history if run.path.startswith("_cuts/")]

        assert 3 <= len(cuts) <= 8

    def test_goes_back_as_far_as_the_oldest_cut(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)
        monkeypatch.setattr(h, "CUT_EVERY", 4)
        images = produced(world, 40, 10)
        world.clock.advance(8 * DAY_MS)
        world.produce(1)
        fold(world.log)
        oldest = oldest_cut(world.log.image())

        assert oldest == 44
        for version in range(oldest, 46):
            got = cut_at(world.log, version).topics[TOPIC_ID].partitions
            assert dict(got) == cut_of([*images, world.log.image([TOPIC_ID])][version])
        with pytest.raises(VersionOutOfRangeError, match="version 43 .* allowed are 44 to"):
            cut_at(world.log, 43)

    def test_without_any_history_the_fold_is_the_base(self, world: World) -> None:
        images = produced(world, 10, 5)
        image = world.log.image([TOPIC_ID])
        fold_edit = type(image.fold)(image.fold.cover, image.fold.based_on, image.fold.runs)
        world.log.go_on_from(replace(image, fold=fold_edit), world.log.log_id)

        assert oldest_cut(world.log.image()) == image.fold.cover
        got = cut_at(world.log, image.fold.cover).topics[TOPIC_ID].partitions
        assert dict(got) == cut_of(images[image.fold.cover])


class TestReadable:
    def test_is_what_nobody_took_away(self) -> None:
        check_readable(PartitionCut(0, 5, 5, 0), PartitionLog("t-0", 0), 7)

    @pytest.mark.parametrize("name", ["log start offset", "cleaner offset"])
    def test_else_it_is_refused_by_name(self, name: str) -> None:
        state = NEW_PARTITION._replace(log_end_offset=9, **{name.replace(" ", "_"): 6})
        with pytest.raises(OffsetOutOfRangeError, match=f"t-0: version 7 .* its {name} was 2, and"):
            check_readable(PartitionCut(2, 5, 5, 2), PartitionLog("t-0", 0, state), 7)


class TestPastCatalog:
    def test_commits_nothing(self, tmp_path: Path) -> None:
        AdminClient(tmp_path / "log").create_topics([NewTopic("t", 1)])
        past = PastCatalog(catalog(tmp_path / "log"), version=1)

        with pytest.raises(UsageError, match="version 1 of the log dir is past"):
            past.commit_all([], operation="PRODUCE")
