"""Backup and restore: a copy becomes a log dir of its own, and nobody takes it for its original."""

import shutil
from pathlib import Path

import pytest

from sparklog.clock import SystemClock
from sparklog.errors import CorruptMetadataError, MissingFileError, StorageFullError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.follow import hinted_version
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import (
    HINT,
    POINTER,
    TORN,
    checkpoint_path,
    entry_path,
    last_part,
)
from sparklog.metadata.plans.cluster import producer_id_block, with_broker
from sparklog.metadata.state.cluster import FIRST_PRODUCER_ID, Broker, Endpoint
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.image import Image
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems
from sparklog.metadata.upkeep.restore import restore
from sparklog.storage import open_files
from tests.command_line import CommandLine, Outcome
from tests.logs import append, catalog, new_topic, values
from tests.restoring import restored


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return append_to(new_topic(tmp_path / "log", partitions=1))


def append_to(log_dir: str, count: int = 3) -> str:
    for number in range(count):
        append(log_dir, 0, [number])
    return log_dir


def taken(log_dir: str) -> range:
    """The producer ids that a gateway takes."""
    blocks: list[range] = []

    def plan(image: Image) -> Edit:
        edit, block = producer_id_block(image, FIRST_PRODUCER_ID)
        blocks.append(block)
        return edit

    catalog(log_dir).log.commit(plan)
    return blocks[-1]


class TestARestoredCopy:
    @pytest.mark.parametrize("is_folded", [False, True])
    def test_has_what_was_there_and_goes_on(
        self, log_dir: str, tmp_path: Path, is_folded: bool
    ) -> None:
        copy = restored(log_dir, tmp_path / "copy")
        append(copy, 0, ["new"])
        if is_folded:
            fold(catalog(copy).log)
            append(copy, 0, ["newer"])

        assert values(copy)[0] == ["0", "1", "2", "new", *["newer"] * is_folded]
        assert values(log_dir)[0] == ["0", "1", "2"]

    def test_has_another_id(self, log_dir: str, tmp_path: Path) -> None:
        copy = restored(log_dir, tmp_path / "copy")
        ids = [(Path(place) / "meta.properties").read_text() for place in (log_dir, copy)]

        assert ids[0] != ids[1]

    @pytest.mark.parametrize("is_folded", [False, True])
    def test_knows_which_versions_it_has_of_its_original(
        self, log_dir: str, tmp_path: Path, is_folded: bool
    ) -> None:
        logs = [catalog(log_dir).log]
        ends = [logs[0].image().version]
        for number in range(2):
            copy = restored(log_dir, tmp_path / f"copy {number}")
            append_to(log_dir)
            logs.append(catalog(log_dir := copy).log)
            ends.append(logs[-1].image().version)
        if is_folded:
            fold(logs[-1])
        found = catalog(log_dir).log
        ends[-1] = found.image().version

        assert found.last_versions() == {
            log.log_id: end for log, end in zip(logs, ends, strict=True)
        }

    def test_gives_no_producer_id_that_its_original_gives(
        self, log_dir: str, tmp_path: Path
    ) -> None:
        first = taken(log_dir)
        copy = restored(log_dir, tmp_path / "copy")
        later = [taken(log_dir) for _ in range(3)]

        assert taken(copy).start > max(one.stop for one in [first, *later])

    def test_sends_no_client_to_the_gateways_of_its_original(
        self, log_dir: str, tmp_path: Path
    ) -> None:
        gateway = Broker(3, "first", (Endpoint("PLAINTEXT", "original", 9092),))
        original = catalog(log_dir).log
        original.commit(lambda image: with_broker(image, gateway))

        copy = restored(log_dir, tmp_path / "copy")

        assert not catalog(copy).log.image().brokers
        assert dict(original.image().brokers) == {3: gateway}

    @pytest.mark.parametrize("later", [0, 1, 5])
    def test_in_place_of_its_original_refuses_who_followed_that(
        self, log_dir: str, tmp_path: Path, later: int
    ) -> None:
        """Goal: nobody goes on from the old log, wherever in it, on the new one."""
        copy = restored(log_dir, tmp_path / "copy")
        append_to(log_dir, later)
        follower: Catalog = catalog(log_dir)
        follower.image()
        entries = Path(log_dir) / "__cluster_metadata" / "_delta_log"
        for path in entries.iterdir():
            path.unlink()
        for path in (Path(copy) / "__cluster_metadata" / "_delta_log").iterdir():
            shutil.copy(path, entries / path.name)
        append_to(log_dir, later + 1)

        with pytest.raises(CorruptMetadataError, match="restored"):
            follower.image()
        assert len(values(log_dir)[0]) == 3 + later + 1

    @pytest.fixture
    def torn(self, log_dir: str, tmp_path: Path) -> Path:
        """A copy whose entries were copied before commits and a fold, and the rest after them."""
        entries = Path(CLUSTER_METADATA) / "_delta_log"
        copy = tmp_path / "copy"
        shutil.copytree(log_dir / entries, copy / entries)
        append_to(log_dir)
        fold(catalog(log_dir).log)
        shutil.copytree(
            log_dir, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_delta_log")
        )
        return copy

    def test_goes_on_though_its_hint_names_a_fold_that_it_lacks(self, torn: Path) -> None:
        restore(open_files(str(torn)), SystemClock())
        append_to(str(torn), 5)

        assert values(str(torn))[0] == ["0", "1", "2", "0", "1", "2", "3", "4"]

    @pytest.mark.parametrize("is_folded", [False, True])
    def test_is_sound_though_its_hints_are_newer(
        self, log_dir: str, tmp_path: Path, is_folded: bool
    ) -> None:
        if is_folded:
            fold(catalog(log_dir).log)
        copy = Path(shutil.copytree(log_dir, tmp_path / "copy"))
        append_to(log_dir)
        fold(catalog(log_dir).log)
        checkpoint = checkpoint_path(hinted_version(open_files(log_dir), HINT))
        for path in (POINTER, HINT, checkpoint):
            shutil.copy(Path(log_dir) / path, copy / path)
        restore(open_files(str(copy)), SystemClock())

        assert list(problems(open_files(str(copy)), SystemClock())) == []
        assert (copy / HINT).exists() is is_folded

    def test_is_sound_though_its_hint_is_older(self, log_dir: str, tmp_path: Path) -> None:
        fold(catalog(log_dir).log)
        newest = Path(log_dir, HINT).read_bytes()
        copy = Path(shutil.copytree(log_dir, tmp_path / "copy"))
        (copy / HINT).write_bytes(b'{"version":0}')
        restore(open_files(str(copy)), SystemClock())

        assert list(problems(open_files(str(copy)), SystemClock())) == []
        assert (copy / HINT).read_bytes() == newest

    def test_puts_a_torn_checkpoint_aside(self, log_dir: str) -> None:
        fold(catalog(log_dir).log)
        path = checkpoint_path(hinted_version(open_files(log_dir), HINT))
        sound = Path(log_dir, path).read_bytes()
        Path(log_dir, path).write_bytes(b"torn")
        restore(open_files(log_dir), SystemClock())

        assert Path(log_dir, TORN, last_part(path)).read_bytes() == b"torn"
        assert Path(log_dir, path).read_bytes() == sound

    @pytest.mark.parametrize("directory", ["_runs", "_history"])
    def test_without_a_file_that_a_fold_names_is_refused(
        self, log_dir: str, directory: str
    ) -> None:
        fold(catalog(log_dir).log)
        for path in Path(log_dir, CLUSTER_METADATA, directory).iterdir():
            path.unlink()

        with pytest.raises(CorruptMetadataError, match=f"{directory}/.* sparklog verify --repair"):
            restore(open_files(log_dir), SystemClock())

    def test_with_a_hole_is_refused(self, log_dir: str) -> None:
        last = catalog(log_dir).log.image().version
        (Path(log_dir) / entry_path(last - 1)).unlink()

        with pytest.raises(CorruptMetadataError, match=r"is missing or damaged.*copy the metadata"):
            restore(open_files(log_dir), SystemClock())

    def test_of_nothing_is_refused(self, log_dir: str) -> None:
        for path in (Path(log_dir) / CLUSTER_METADATA / "_delta_log").iterdir():
            path.unlink()

        with pytest.raises(MissingFileError, match="no metadata log here"):
            restore(open_files(log_dir), SystemClock())

    @pytest.mark.parametrize("has_files", [False, True])
    def test_is_expected(self, tmp_path: Path, has_files: bool) -> None:
        if has_files:
            (tmp_path / "t-0.log").touch()
        outcome = CommandLine(str(tmp_path))("restore")

        assert (outcome.code, outcome.text) == (1, "")
        assert "is no copy of a log dir: it has no meta.properties; copy the whole" in outcome.err

    def test_is_made_on_the_command_line(self, log_dir: str) -> None:
        sparklog = CommandLine(log_dir)

        assert sparklog.done("restore").text.startswith("cluster id ")
        (row,) = sparklog.done("restore", "--format", "json").json
        assert row.keys() == {"cluster_id", "notes"}
        assert row["notes"] == []

    def test_tells_on_the_command_line_what_was_put_aside(self, log_dir: str) -> None:
        fold(catalog(log_dir).log)
        path = checkpoint_path(hinted_version(open_files(log_dir), HINT))
        sparklog = CommandLine(log_dir)
        told = []
        for arguments in ([], ["--quiet"], ["--format", "json"]):
            Path(log_dir, path).write_bytes(b"torn")
            told.append(sparklog.done("restore", *arguments))
        text, quiet, row = told
        aside = f"; put aside as {TORN}/{last_part(path)}"

        (line,) = [one for one in text.lines if one.startswith(f"{path}: no Parquet file (torn?)")]
        assert line.endswith(aside)
        assert "checkpoint and hint of version 5 are written anew" in text.lines
        assert quiet.text.startswith("cluster id ")
        assert any(one.endswith(f"{aside}.2") for one in row.json[0]["notes"])

    def test_tells_what_was_put_aside_also_if_it_then_fails(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise StorageFullError("no space")

        monkeypatch.setattr(MetadataLog, "begin_incarnation", fail)
        outcomes: list[Outcome] = []
        for arguments in ([], ["--format", "json"], ["--format", "json"]):
            if len(outcomes) < 2:
                Path(log_dir, HINT).write_bytes(b'{"version":99}')
            outcomes.append(CommandLine(log_dir)("restore", *arguments))
        text, row, idle = outcomes

        aside = f"put aside as {TORN}/{last_part(HINT)}"
        told = f"{HINT}: names entry 99, which is no fold that can be opened; {aside}"
        assert (text.code, text.lines) == (1, [told])
        assert (row.code, row.json) == (1, [{"cluster_id": None, "notes": [f"{told}.1"]}])
        assert (idle.code, idle.lines) == (1, [])
