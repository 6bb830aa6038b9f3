"""One run with a power cut: work in turns until a drawn step, lose what was not synced, go on.

The producers, the administrator and the checker are those of the other runs, taking turns in one
process; their journals lie outside the log dir, as an observer's notes would.
"""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import JobRun
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata import catalog
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.upkeep import fold
from sparklog.storage import open_files
from sparklog.storage.log_dir import META_PROPERTIES
from tests.metadata_logs import keep_house_now
from tests.power import CuttableFiles, PowerCutError
from tests.soak.administrator import Administrator
from tests.soak.checker import Found, History, check
from tests.soak.history import load
from tests.soak.producer import Producer
from tests.soak.reader import read_all
from tests.soak.setup import CONFIGS, PARTITIONS, TOPIC, Life

TURNS = 12
STEPS = 500
"""A run has about so many steps, so now and then the power goes after all is done."""
INTERVAL = 4
"""A fold after so many commits."""


def cut_and_go_on(folder: Path, seed: int) -> list[Found]:
    """Work, cut, restore, work again; return what the checker finds in both lives together.

    The seed says what is done and where it is cut; topic ids and times differ from run to run.
    """
    (folder / "log").mkdir(parents=True)
    draw = random.Random(seed)
    files = CuttableFiles(str(folder / "log"), draw.randrange(STEPS), draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold, "FOLD_EVERY", INTERVAL)
        patch.setattr(catalog, "keep_house", keep_house_now)
        _work_until_cut(folder, files, seed)
        left = files.survivors()
        shutil.rmtree(folder / "log")
        for path, data in left.items():
            (folder / "log" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "log" / path).write_bytes(data)
        mend(str(folder / "log"))
        _work(folder, seed, 1)
    journals = sorted(folder.glob("*.jsonl"))
    return check(History([event for path in journals for event in load(path)]))


def mend(log_dir: str) -> None:
    """Run `sparklog verify --repair`, as one does after a power cut."""
    context = JobContext(Catalog(open_files(log_dir), SystemClock()), LocalFleet())
    if context.files.stat(META_PROPERTIES) is not None:
        JobRun(name="verify", job=verify, options={"repair": True}).run(context, lambda _: None)


def _work_until_cut(folder: Path, files: CuttableFiles, seed: int) -> None:
    """Work on files whose power fails."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("sparklog.admin.client", "tests.soak.setup"):
            patch.setattr(f"{module}.open_files", lambda *_: files)
        with suppress(PowerCutError):
            _work(folder, seed, 0)


def _work(folder: Path, seed: int, birth: int) -> None:
    """Make the topic if need be, replay what was begun, go on, and read it all."""
    log_dir = str(folder / "log")
    admin = AdminClient(log_dir)
    if open_files(log_dir).stat(META_PROPERTIES) is None or TOPIC not in admin.list_topics():
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, CONFIGS)])
    producers = [Producer(_life(folder, seed, f"producer-{n}", birth)) for n in (0, 1)]
    administrator = Administrator(_life(folder, seed, "administrator-0", birth))
    for producer in producers:
        producer.recover()
    draw = random.Random(f"{seed} {birth}")
    writes = [producer.write_next for producer in producers]
    for _ in range(TURNS):
        draw.choice([*writes, *writes, administrator.act])()
    read_all(_life(folder, seed, f"reader-{birth}", birth))


def _life(folder: Path, seed: int, name: str, birth: int) -> Life:
    """A life that does not end by its own hand."""
    return Life(folder, seed, name, int(name[-1]), birth, 0.0, settles=True)
