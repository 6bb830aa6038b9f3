"""The log dir is replaced while a process sleeps: its fold takes only the entries of its image."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparklog.errors import CorruptMetadataError, MissingFileError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.codec.entry import encode
from sparklog.metadata.history.files import continued
from sparklog.metadata.names import entry_path
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage.local import LocalFiles
from tests.metadata_logs import World, names


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(LocalFiles(str(tmp_path)))


class TestWhileTheLogDirIsReplaced:
    """Goal: only the entries that the image was made of are folded.

    Method: files change after the fold has its image, as if the process had slept.
    """

    @pytest.fixture
    def slept(self, world: World, monkeypatch: pytest.MonkeyPatch) -> World:
        world.produce(5)
        image = world.log.image()
        monkeypatch.setattr(world.log, "image", lambda: image)
        return world

    def refuse(self, world: World, error: str) -> None:
        before = names(world.files)
        with pytest.raises(CorruptMetadataError, match=error):
            fold(world.log)
        assert names(world.files) == before

    def test_by_an_older_copy(self, slept: World) -> None:
        for version in (5, 6):
            slept.files.delete(entry_path(version))

        self.refuse(slept, f"{entry_path(5)} is missing")

    @pytest.mark.parametrize("version", [0, 3, 6])
    def test_by_a_log_with_other_entries(self, slept: World, tmp_path: Path, version: int) -> None:
        other = World(LocalFiles(str(tmp_path / "other")))
        other.produce(5)
        data = bytes(other.files.read(entry_path(version)))
        slept.files.overwrite(entry_path(version), data)

        self.refuse(slept, "is entry '[0-9a-f]{24}' now, and was '[0-9a-f]{24}'")

    @pytest.mark.parametrize("version", [0, 3, 6])
    def test_by_damaged_bytes_of_the_same_length(self, slept: World, version: int) -> None:
        data = bytes(slept.files.read(entry_path(version)))
        at = data.index(b'"edits":[') + 20
        slept.files.overwrite(entry_path(version), data[:at] + b"#" + data[at + 1 :])

        self.refuse(slept, f"{entry_path(version)}: the entry does not match its checksum")

    def test_by_another_newest_entry(self, slept: World) -> None:
        newest = slept.fresh().entries.read(6)
        assert newest is not None
        assert newest.edits_json is not None
        other = encode(replace(newest, id="0" * 24), newest.edits_json)
        slept.files.overwrite(entry_path(6), other)

        self.refuse(slept, f"is entry '{'0' * 24}' now, and was '{newest.id}'")

    def test_an_entry_that_is_missing_for_a_moment(
        self, slept: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def read(path: str) -> Any:
            if path == entry_path(3) and not missed:
                missed.append(path)
                raise MissingFileError(path)
            return found(path)

        missed: list[str] = []
        found = slept.files.read
        monkeypatch.setattr(slept.files, "read", read)

        self.refuse(slept, f"{entry_path(3)} is missing")

    def test_after_the_entries_were_read(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def replaced(*given: Any) -> Any:
            data = other.files.read(entry_path(cover))
            world.files.overwrite(entry_path(cover), bytes(data))
            return continued(*given)

        other = World(LocalFiles(str(tmp_path / "other")))
        for one in (world, other):
            one.produce(5)
        cover = world.log.image().version
        monkeypatch.setattr("sparklog.metadata.upkeep.fold.continued", replaced)

        assert fold(world.log) is None
        assert world.log.image().version == cover

    def test_by_another_edits_file_of_the_same_length(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.metadata.log.EDITS_BYTES_MAX", 9)
        world.produce(1)
        image = world.log.image()
        monkeypatch.setattr(world.log, "image", lambda: image)
        (name,) = names(world.files, "_edits")
        path = f"{CLUSTER_METADATA}/_edits/{name}"
        data = bytes(world.files.read(path))
        world.files.overwrite(path, data.replace(b"PRODUCE", b"PROCURE"))

        self.refuse(world, f"{path}: {len(data)} bytes with CRC-32C")
