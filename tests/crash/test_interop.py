"""Kill -9 before every step of an import and of an export: nothing half done is ever seen."""

import signal
from pathlib import Path

import pytest

from sparklog.interop import staging
from sparklog.interop.broker_files import checkpoints
from sparklog.interop.broker_files.broker_dir import LOCK_FILE
from sparklog.interop.broker_files.producer_snapshot import ProducerState, encode_snapshot
from tests.broker_files import T0, TRANSACTIONAL, batch, write_indexes, write_segment
from tests.crash.interop import export_all, import_all
from tests.crash.producer import in_process
from tests.logs import Row, catalog, image, rows

pytestmark = pytest.mark.slow

KILLED = -signal.SIGKILL

Records = dict[str, dict[int, list[Row]]]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def records(log_dir: Path) -> Records:
    """Every topic that has records; none where there is no log dir yet."""
    if not (log_dir / "meta.properties").exists():
        return {}
    found = {name: rows(log_dir, name) for name in catalog(log_dir).topics()}
    return {name: parts for name, parts in found.items() if parts}


def named(log_dir: Path) -> set[Path]:
    """The files that landed commits name."""
    found = set()
    for topic in catalog(log_dir).topics().values() if records(log_dir) else ():
        (directory,) = log_dir.glob(f"{topic.name}-{topic.topic_id}")
        for entry in image(log_dir, topic.name).segments(0):
            found.add(directory / entry.log_path)
    return found


def visible(target: Path) -> dict[str, bytes] | None:
    """The files that a broker mounts; None where it does not start."""
    if (target / staging.NAME).exists():
        return None
    ours = (staging.LIST, f"{staging.LIST}.tmp", LOCK_FILE)
    return {name: data for name, data in contents(target).items() if name not in ours}


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A topic of a sealed segment and a newest one, and another of an open transaction."""
    first, second = (tmp_path / "broker" / name for name in ("a-0", "b-0"))
    first.mkdir(parents=True)
    write_indexes(write_segment(first, 0, batch(0)))
    write_segment(first, 2, batch(2, epoch=4, producer=3, sequence=0))
    second.mkdir()
    write_segment(second, 0, batch(0, producer=3, attributes=TRANSACTIONAL))
    return tmp_path / "broker"


class TestImport:
    def test_killed_before_any_step_is_finished_by_the_next(
        self, broker: Path, tmp_path: Path
    ) -> None:
        """Goal: all topics or none. Method: a process killed before each step."""
        before = contents(broker)
        import_all(str(broker), str(tmp_path / "alive"))
        whole, step, code, seen = records(tmp_path / "alive"), 0, KILLED, set()
        while code == KILLED:
            log_dir = tmp_path / f"killed-{step}"
            code = in_process(import_all, str(broker), str(log_dir), step)
            found, landed = records(log_dir), named(log_dir)
            seen.add(tuple(found))
            assert found == {name: whole[name] for name in found}
            import_all(str(broker), str(log_dir))
            assert records(log_dir) == whole
            assert all(path.exists() for path in landed)
            assert contents(broker) == before
            step += 1

        assert (code, seen) == (0, {(), ("a", "b")})


class TestExport:
    @pytest.fixture
    def log_dir(self, broker: Path, tmp_path: Path) -> Path:
        import_all(str(broker), str(tmp_path / "log"))
        return tmp_path / "log"

    def target(self, path: Path) -> Path:
        """A stopped broker with both topics, empty; it has had epoch 5, and the producer of `a`."""
        for name in ("a-0", "b-0"):
            (path / name).mkdir(parents=True)
            (path / name / "partition.metadata").write_bytes(checkpoints.encode_topic_id("A" * 22))
            write_segment(path / name, 0)
            (path / name / checkpoints.LEADER_EPOCH).write_text("0\n1\n5 0\n")
            known = encode_snapshot([ProducerState(3, 0, 1, 3, 1, T0 + 3, -1, -1)])
            (path / name / f"{4:020d}.snapshot").write_bytes(known)
        (path / "meta.properties").write_text("version=1\n")
        return path

    def test_killed_before_any_step_is_finished_by_the_next(
        self, log_dir: Path, tmp_path: Path
    ) -> None:
        """Goal: what a broker mounts is all or nothing. Method: as above."""
        whole, before = self.target(tmp_path / "whole"), contents(log_dir)
        empty = visible(whole)
        export_all(str(log_dir), str(whole))
        assert (whole / "a-0" / checkpoints.LEADER_EPOCH).read_text() == "0\n2\n0 0\n4 2\n"
        step, code, seen = 0, KILLED, set()
        while code == KILLED:
            target = self.target(tmp_path / f"killed-{step}")
            code = in_process(export_all, str(log_dir), str(target), step)
            found = visible(target)
            seen.add(found is not None and found == visible(whole))
            assert found in (None, empty, visible(whole))
            if found != visible(whole):
                export_all(str(log_dir), str(target))
            assert visible(target) == visible(whole)
            assert contents(log_dir) == before
            step += 1

        assert (code, seen) == (0, {False, True})
