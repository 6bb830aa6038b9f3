"""The power is cut at a random step; what was acknowledged is there afterwards, and work goes on.

The producers, the administrator and the checker are those of `tests/soak`, taking turns in one
process; their journals lie outside, as an observer's notes would.
"""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.manifest import delta_rs
from sparklog.manifest.delta_rs import DeltaLog
from sparklog.storage import open_files
from tests.power import CuttableFiles, PowerCutError
from tests.soak.administrator import Administrator
from tests.soak.checker import History, check
from tests.soak.history import load
from tests.soak.producer import Producer
from tests.soak.reader import read_all
from tests.soak.setup import PARTITIONS, TOPIC, Life

SEEDS = range(12)
"""Each is a run that is cut somewhere else."""
TURNS = 12
STEPS = 500
"""A run has about so many steps."""
INTERVAL = 4
"""A checkpoint after so many commits."""


@pytest.fixture(autouse=True)
def many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_rs, "CHECKPOINT_INTERVAL", INTERVAL)
    monkeypatch.setitem(delta_rs.TABLE_PROPERTIES, "delta.checkpointInterval", str(INTERVAL))


def life(folder: Path, seed: int, name: str, birth: int) -> Life:
    """A life that does not end by its own hand."""
    return Life(folder, seed, name, int(name[-1]), birth, 0.0, settles=True)


def work(folder: Path, seed: int, birth: int) -> None:
    """Make the topic if need be, replay what was begun, go on, and read it all."""
    log_dir = folder / "log"
    admin = AdminClient(log_dir)
    if not open_files(str(log_dir)).stat("meta.properties") or TOPIC not in admin.list_topics():
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
    producers = [Producer(life(folder, seed, f"producer-{n}", birth)) for n in (0, 1)]
    administrator = Administrator(life(folder, seed, "administrator-0", birth))
    for producer in producers:
        producer.recover()
    draw = random.Random(f"{seed} {birth}")
    for _ in range(TURNS):
        draw.choice([*(2 * [producer.write_next for producer in producers]), administrator.act])()
    read_all(life(folder, seed, f"reader-{birth}", birth))


def work_until_cut(folder: Path, files: CuttableFiles, seed: int) -> None:
    """Work on files whose power fails; around every commit there is a step, too."""
    commit = DeltaLog.commit

    def cuttable_commit(log: DeltaLog, *arguments: object, **named: object) -> None:
        files.step()
        commit(log, *arguments, **named)  # type: ignore[arg-type] # handed on as it came
        files.step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", cuttable_commit)
        for module in ("sparklog.admin", "tests.soak.setup"):
            patch.setattr(f"{module}.open_files", lambda *_: files)
        with suppress(PowerCutError):
            work(folder, seed, 0)


class TestAPowerCut:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_takes_nothing_that_was_acknowledged(self, tmp_path: Path, seed: int) -> None:
        draw = random.Random(seed)
        files = CuttableFiles(str(tmp_path / "log"), draw.randrange(STEPS), draw)
        work_until_cut(tmp_path, files, seed)
        left = files.survivors()
        shutil.rmtree(tmp_path / "log")
        for path, data in left.items():
            (tmp_path / "log" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "log" / path).write_bytes(data)

        work(tmp_path, seed, 1)

        events = [event for path in sorted(tmp_path.glob("*.jsonl")) for event in load(path)]
        assert check(History(events)) == []
