"""Kill -9 after every step of a produce, and replay it: no hole, no duplicate, nothing lost.

On S3 a step is a request: the process is cut off from the store behind it, or lives and loses it.
"""

import shutil
import signal
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from sparklog.errors import CommitOutcomeUnknownError, StorageError
from sparklog.metadata.names import ENTRIES, HINT
from sparklog.metadata.upkeep.fold import FOLD_EVERY, fold
from sparklog.model import SHARED_PREFIX, OffsetRange
from sparklog.storage import Files, open_files
from sparklog.storage.memory import MemoryFiles, Operation
from tests.crash.producer import PARTITIONS, RECORDS, Write, in_process, run
from tests.cutting import CuttingProxy, behind, copied, is_killed
from tests.logs import Place, append, catalog, image, new_topic, values
from tests.s3 import S3LogDir, S3Server, s3_server
from tests.store_proxy import Fault

__all__ = ["s3_server"]

pytestmark = pytest.mark.slow

KILLED = -signal.SIGKILL
SHARED = {"index.interval.bytes": 100}
"""Of a topic whose records go into shared segments, for they are few."""
OWN_FILES = {**SHARED, "sparklog.shared.segment.max.bytes": 0}

FIRST, LATER = Write(), Write("later", version=2)
MADE_BEFORE = 2
"""Entries of a new log: its own creation, and that of its topic."""
READS = {"read", "view", "stat", "list"}
"""To be killed after one of these is to be killed before it."""


def new_log(place: Place, commits: int, config: Mapping[str, int] = SHARED) -> str:
    """A log with `commits` acknowledged commits, each of a record for every partition in turn."""
    log_dir = new_topic(place, partitions=PARTITIONS, config=config)
    for number in range(commits):
        append(place, number % PARTITIONS, [number])
    return log_dir


def contents(before: int, *writes: Write) -> dict[int, list[str]]:
    """What the log must hold after the earlier commits and these."""
    return {
        partition: [str(number) for number in range(partition, before, PARTITIONS)]
        + [value for write in writes for value in write.values(partition)]
        for partition in range(PARTITIONS)
    }


def commit_of(steps: list[Operation]) -> int:
    """Which step puts the entry that makes the write visible."""
    puts = (step.kind == "put_new" and step.path.startswith(ENTRIES) for step in steps)
    return list(puts).index(True)


def synced(steps: list[Operation]) -> set[str]:
    return {step.path for step in steps if step.kind == "sync"}


class TestSteps:
    @pytest.mark.parametrize(("config", "files"), [(OWN_FILES, 8), (SHARED, 2)])
    def test_come_in_the_order_that_survives_a_power_cut(
        self, config: Mapping[str, int], files: int, tmp_path: Path
    ) -> None:
        """Data, then the entry (synced before it gets its name), then the entry's name."""
        _, steps = run(new_log(tmp_path / "log", 2, config), FIRST)
        commit = commit_of(steps)
        made = {step.path for step in steps if step.kind in ("close", "write_new")}

        assert len(made) >= files
        assert all("/t-" in path or path.startswith(SHARED_PREFIX) for path in made)
        assert made == synced(steps[:commit])
        behind = [(step.kind, step.path) for step in steps[commit + 1 :] if step.kind not in READS]
        assert behind == [("sync_directory", ENTRIES)]

    def test_make_no_file_durable_twice(self, tmp_path: Path) -> None:
        _, steps = run(new_log(tmp_path / "log", 2), FIRST)
        files = [step.path for step in steps if step.kind == "sync"]

        assert len(files) == len(set(files))


def healed(log_dir: Place, before: int) -> bool:
    """Check that a replay leaves the write there once; return whether it had landed before."""
    seen = values(log_dir)
    assert seen in (contents(before), contents(before, FIRST))
    again, _ = run(log_dir, FIRST)

    assert again.replayed == (seen == contents(before, FIRST))
    assert again.ranges == ranges_behind(before)
    run(log_dir, LATER)
    assert values(log_dir) == contents(before, FIRST, LATER)
    return again.replayed


def ranges_behind(before: int) -> tuple[OffsetRange, ...]:
    """The offsets of the first write behind the earlier commits."""
    starts = [len(found) for found in contents(before).values()]
    return tuple(
        OffsetRange(partition, start, start + RECORDS) for partition, start in enumerate(starts)
    )


class TestKill:
    @pytest.mark.parametrize(
        ("before", "config"), [(4, OWN_FILES), (4, SHARED), (FOLD_EVERY - MADE_BEFORE, SHARED)]
    )
    def test_after_any_step_is_healed_by_a_replay(
        self, tmp_path: Path, before: int, config: Mapping[str, int]
    ) -> None:
        """Goal: exactly once, whatever dies when. Method: a process killed after each step.

        On the last log the commit is followed by a fold, and only these are of interest.
        """
        template = new_log(tmp_path / "template", before, config)
        steps = run(str(shutil.copytree(template, tmp_path / "alive")), FIRST)[1]
        commit = commit_of(steps)
        assert (HINT in {step.path for step in steps[commit:]}) == (before > 4)
        first = 0 if before == 4 else commit - 4
        for number in range(first, len(steps)):
            if steps[number].kind in READS:
                continue
            log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))

            assert in_process(run, log_dir, FIRST, number + 1) == KILLED
            assert healed(log_dir, before) == (number >= commit)

    def test_of_none_is_an_answer(self, tmp_path: Path) -> None:
        log_dir = new_log(tmp_path / "log", 2)

        assert in_process(run, log_dir, FIRST, None) == 0
        assert values(log_dir) == contents(2, FIRST)
        assert image(log_dir).partition(0).log_end_offset == 1 + RECORDS


BEFORE = 4


@pytest.mark.s3
class TestObjectStore:
    @pytest.fixture
    def proxy(self, s3_server: S3Server) -> Iterator[CuttingProxy]:
        with CuttingProxy(s3_server.endpoint) as found:
            yield found

    @pytest.fixture
    def template(self) -> Files:
        new_log(found := MemoryFiles(), BEFORE)
        return found

    @pytest.mark.parametrize(
        ("config", "edits_max", "fold_every"),
        [(OWN_FILES, 9, FOLD_EVERY), (SHARED, 10**9, BEFORE + MADE_BEFORE)],
        ids=["edits in a file", "a fold behind it"],
    )
    def test_a_process_that_is_gone_after_any_request_is_healed_by_a_replay(
        self,
        s3_server: S3Server,
        proxy: CuttingProxy,
        monkeypatch: pytest.MonkeyPatch,
        config: Mapping[str, int],
        edits_max: int,
        fold_every: int,
    ) -> None:
        """Steps: a probe, data, the edits if they are large, the entry, a fold if it is due."""
        new_log(template := MemoryFiles(), BEFORE, config)
        monkeypatch.setattr("sparklog.metadata.upkeep.fold.FOLD_EVERY", fold_every)
        monkeypatch.setattr("sparklog.metadata.log.EDITS_BYTES_MAX", edits_max)
        landed: list[bool] = []
        while True:
            place = s3_server.new_log_dir()
            work = partial(run, copied(template, place, proxy), FIRST)
            if not is_killed(proxy, work, len(landed)):
                break
            files = directly(place)
            landed.append(healed(files, BEFORE))
            assert fold(catalog(files).log) is not None
            assert values(files) == contents(BEFORE, FIRST, LATER)

        assert landed == sorted(landed)
        assert (landed.count(True) > 1) == (fold_every < FOLD_EVERY)
        assert 4 < landed.count(False) < 30

    @pytest.mark.parametrize("arrives", [False, True])
    def test_a_put_or_its_answer_is_lost(
        self, s3_server: S3Server, proxy: CuttingProxy, template: Files, arrives: bool
    ) -> None:
        """Goal: a committer knows its own entry; any other put fails, and the produce with it."""
        landed: list[bool] = []
        while not landed or puts(proxy) >= len(landed):
            place = s3_server.new_log_dir()
            copied(template, place, proxy)
            proxy.requests.clear()
            proxy.add(Fault("PUT", drop=True, after=arrives, skip=len(landed)))
            landed.append(is_answered(behind(proxy, place)))
            assert healed(directly(place), BEFORE) == landed[-1]

        assert landed == [False] * (len(landed) - 2) + [True, True]

    @pytest.mark.parametrize("arrives", [False, True])
    def test_an_outcome_that_is_unknown_is_told(
        self,
        s3_server: S3Server,
        proxy: CuttingProxy,
        template: Files,
        monkeypatch: pytest.MonkeyPatch,
        arrives: bool,
    ) -> None:
        """The entry's puts are lost for longer than a committer waits, or the store is away."""
        monkeypatch.setattr("sparklog.metadata.entries.PUT_TIMEOUT_MS", 50)
        first, place = s3_server.new_log_dir(), s3_server.new_log_dir()
        copied(template, first, proxy)
        copied(template, place, proxy)
        run(behind(proxy, first), FIRST)
        proxy.crash_at, proxy.steps = proxy.steps if arrives else -1, 0
        proxy.add(Fault("PUT", ENTRIES, drop=True, times=10**9))

        with pytest.raises(CommitOutcomeUnknownError, match="replay with the same txnAppId"):
            run(behind(proxy, place), FIRST)
        assert healed(directly(place), BEFORE) == arrives


def directly(place: S3LogDir) -> Files:
    """The log dir as a process has it that nothing cuts off."""
    return open_files(place.uri, place.options)


def is_answered(files: Files) -> bool:
    """Return whether the first write succeeded, and check its answer."""
    try:
        found, _ = run(files, FIRST)
    except StorageError:
        return False
    assert (found.ranges, found.replayed) == (ranges_behind(BEFORE), False)
    return True


def puts(proxy: CuttingProxy) -> int:
    """How many came."""
    return sum(one.method == "PUT" for one in proxy.requests)
