"""A housekeeper folds now and then; a service beside it folds very late."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sparklog.errors import MissingFileError, StorageError
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.image import Image
from sparklog.metadata.upkeep import fold as f
from sparklog.metadata.upkeep import housekeeping as k
from sparklog.metadata.upkeep.housekeeping import keep_house, keep_house_late, keep_house_while
from sparklog.storage.local import LocalFiles
from tests.metadata_logs import World, wait


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(f, "FOLD_EVERY", 4)
    return World(LocalFiles(str(tmp_path)))


class TestBesideAHousekeeper:
    """A service folds only if its housekeeper does not."""

    @pytest.mark.parametrize("size", ["FOLD_AT_THE_LATEST", "FOLD_AT_THE_LATEST_BYTES"])
    def test_a_service_folds_very_late(
        self, world: World, monkeypatch: pytest.MonkeyPatch, size: str
    ) -> None:
        world.produce(2)
        bytes_behind = world.log.bytes_behind
        behind = {"FOLD_AT_THE_LATEST": 3, "FOLD_AT_THE_LATEST_BYTES": bytes_behind}[size]
        monkeypatch.setattr(f, size, behind)
        world.produce(3)
        keep_house(world.log)
        assert world.log in k._houses
        wait(world.log)
        while not f.is_overdue(world.log.image(), world.log.bytes_behind, k.LATE):
            world.clock.advance(k.LATE_MS)
            keep_house_late(world.log)
            world.produce(1)
        for wait_ms in (0, k.LATE_MS - 1):
            world.clock.advance(wait_ms)
            keep_house_late(world.log)
            assert k._houses[world.log].thread is None
        before = world.log.image()
        world.clock.advance(1)
        keep_house_late(world.log)
        wait(world.log)

        assert world.log.image().fold.cover == before.version

    def test_a_service_does_not_fold_if_another_process_does(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f, "FOLD_AT_THE_LATEST_BYTES", 1)
        for _ in range(3):
            world.produce(2)
            keep_house_late(world.log)
            world.clock.advance(k.LATE_MS - 1)
            other = world.fresh()
            f.fold(other)
            world.produce(2)
            keep_house_late(world.log)
            assert k._houses[world.log].thread is None
            world.clock.advance(1)

    @pytest.mark.parametrize(
        ("fold_ms", "pause_ms"), [(0, 10_000), (400, 10_000), (1_000, 20_000), (10_000, 60_000)]
    )
    def test_a_housekeeper_folds_now_and_then(
        self, world: World, monkeypatch: pytest.MonkeyPatch, fold_ms: int, pause_ms: int
    ) -> None:
        """A fold that takes long is followed by a longer pause."""

        def fold(log: MetadataLog) -> Image | None:
            world.clock.advance(fold_ms)
            return f.fold(log)

        first, *pauses = self.pauses(world, monkeypatch, fold)
        assert k.FOLD_PAUSE_MS <= first < k.FOLD_PAUSE_MS + 5000
        assert all(pause_ms <= one < pause_ms + 5000 for one in pauses)

    def test_one_that_fails_is_tried_again_after_a_short_pause(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fold(log: MetadataLog) -> Image | None:
            world.clock.advance(5_000)
            raise StorageError("the network is down")

        pauses = self.pauses(world, monkeypatch, fold)
        assert all(k.FOLD_PAUSE_MS <= one < k.FOLD_PAUSE_MS + 5000 for one in pauses)

    def pauses(
        self,
        world: World,
        monkeypatch: pytest.MonkeyPatch,
        fold: Callable[[MetadataLog], Image | None],
    ) -> list[int]:
        """The times between the begins of a housekeeper's first folds, and before the first."""
        monkeypatch.setattr(k, "FOLD_EVERY", 5)
        begun_ms = [world.clock.boot_ms()]

        def counted(log: MetadataLog) -> Image | None:
            begun_ms.append(world.clock.boot_ms())
            return fold(log)

        def waits(version: int, seconds: float) -> bool:
            world.produce(2)
            world.clock.advance(round(1000 * seconds))
            return len(begun_ms) < 4

        monkeypatch.setattr(k, "fold", counted)
        keep_house_while(waits, world.log)
        return [second - first for first, second in pairwise(begun_ms)]

    def test_a_small_growth_is_left(self, world: World) -> None:
        looks = iter(range(5))

        def waits(version: int, seconds: float) -> bool:
            world.produce(2)
            world.clock.advance(k.FOLD_PAUSE_MS)
            return next(looks, None) is not None

        keep_house_while(waits, world.log)

        assert world.fresh().image().fold.cover == -1

    def test_much_is_folded_soon(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(f, "FOLD_AT_THE_LATEST_BYTES", 1)
        world.produce(2)

        def waits(version: int, seconds: float) -> bool:
            return world.fresh().image().fold.cover < 0

        keep_house_while(waits, world.log)

        assert world.fresh().image().fold.cover == 3

    def test_a_storage_that_fails_for_a_while_is_told_to_the_log(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails(*_: object) -> None:
            raise StorageError("the network is down")

        looks: list[int] = []

        def waits(version: int, seconds: float) -> bool:
            looks.append(version)
            if len(looks) == 1:
                monkeypatch.setattr(world.log, "image", fails)
            else:
                monkeypatch.undo()
                world.produce(1)
            return len(looks) < 3

        keep_house_while(waits, world.log)

        assert looks == [1, 1, 2]
        assert caplog.messages == ["the metadata log could not be read: the network is down"]

    def test_a_log_that_is_gone_ends_it(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object) -> None:
            raise MissingFileError("the log is gone")

        def waits(version: int, seconds: float) -> bool:
            monkeypatch.setattr(world.log, "image", fails)
            return True

        with pytest.raises(MissingFileError, match="the log is gone"):
            keep_house_while(waits, world.log)
