"""Groups of a second: on a local disk each lies behind the one before, in the same file."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sparklog.group_commit.append_slots import Append, Slot
from sparklog.group_commit.appends import AppendCommit, AppendLimits
from sparklog.group_commit.queue import CommitLimits, GroupCommit
from sparklog.log_reader.ranges import BatchRanges
from sparklog.log_writer import SharedSegment
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.edit import Edit
from sparklog.storage.local import LocalFiles
from sparklog.transactions.end_group import EndGroup
from tests.appends import Appender
from tests.client_batches import NOW_MS, client_batch
from tests.crashes import APPEND_WRITES, Crash, Fails
from tests.logs import catalog, image, values
from tests.maintenance import run
from tests.unit.group_commit.conftest import rows


def test_lie_in_one_file(log_dir: str) -> None:
    world = Appender(log_dir, flush=True)
    for value in "abc":
        world.append(("t", 0, client_batch(value)))

    entries = image(log_dir).partition(0).entries()
    assert len({entry.log_path for entry in entries}) == 1
    ends = [entry.log_position + entry.log_bytes for entry in entries]
    assert [entry.log_position for entry in entries] == [0, *ends[:-1]]
    assert values(log_dir) == {0: ["a", "b", "c"]}


def test_are_read_by_a_reader_that_has_the_file_open(log_dir: str) -> None:
    world = Appender(log_dir, flush=True)
    ranges = BatchRanges(world.catalog.files)
    for number, value in enumerate("ab"):
        world.append(("t", 0, client_batch(value)))
        topic = image(log_dir)
        slices = list(topic.partition(0).slices(0, number + 1))
        found = ranges.find(topic_directory(topic.description), slices, 1000)

    assert [len(one) for one in found] == [one.segment.log_bytes for one in slices]


def test_begin_a_file_when_a_merge_has_taken_all_slices(log_dir: str) -> None:
    world = Appender(log_dir, flush=True)
    for value in "ab":
        world.append(("t", 0, client_batch(value)))
    run(merge_segments, log_dir, seal=False)
    world.append(("t", 0, client_batch("c")))

    merged, last = image(log_dir).partition(0).entries()
    assert (merged.is_shared, last.log_position) == (False, 0)
    assert len(list(Path(log_dir, "__shared").iterdir())) == 2  # nothing was written twice


def test_begin_a_file_when_a_merge_takes_all_slices_meanwhile(log_dir: str) -> None:
    world = Appender(log_dir, flush=True)
    for value in "ab":
        world.append(("t", 0, client_batch(value)))
    world.meanwhile = [lambda: run(merge_segments, log_dir, seal=False)]

    assert world.append(("t", 0, client_batch("c"))) == [2]
    assert image(log_dir).partition(0).entries()[-1].log_position == 0
    assert values(log_dir) == {0: ["a", "b", "c"]}


def test_begin_a_file_behind_a_vacuum(log_dir: str) -> None:
    world = Appender(log_dir, flush=True)
    world.append(("t", 0, client_batch("a")))
    log = world.catalog.log
    log.commit(lambda _: Edit(operation="VACUUM", horizon_ms=NOW_MS + 1))
    world.catalog.clock.sleep_ms(2)

    assert world.append(("t", 0, client_batch("b"))) == [1]
    assert {entry.log_position for entry in image(log_dir).partition(0).entries()} == {0}


@pytest.mark.parametrize("is_behind", [False, True])
@pytest.mark.parametrize("at", range(1, len(APPEND_WRITES) + 1))
def test_survive_a_crash_at_any_write_of_the_next(
    log_dir: str, at: int, *, is_behind: bool
) -> None:
    files: Any = Fails(LocalFiles(log_dir), is_behind=is_behind)
    dying = Appender(log_dir, files, flush=True)
    dying.append(("t", 0, client_batch("a")), ("t", 1, client_batch("b")))
    files.fail_at(at)
    with pytest.raises(Crash):
        dying.append(("t", 0, client_batch("c")), ("t", 1, client_batch("d")))

    assert files.done[:at] == list(APPEND_WRITES[:at])
    assert values(log_dir) in ({0: ["a"], 1: ["b"]}, {0: ["a", "c"], 1: ["b", "d"]})
    Appender(log_dir).append(("t", 0, client_batch("e")))
    assert values(log_dir)[0][-1] == "e"


def open_files_of(log_dir: str) -> list[str]:
    """The files in `__shared` that this process has open."""
    links = (os.path.join("/proc/self/fd", one) for one in os.listdir("/proc/self/fd"))
    found = [os.readlink(link) for link in links if os.path.islink(link)]
    return [path for path in found if path.startswith(f"{log_dir}/__shared/")]


async def gateway(log_dir: str) -> None:
    """A gateway's two groups."""
    found = catalog(log_dir)
    commit = AppendCommit(found, AppendLimits(), EndGroup)
    for _ in range(2):
        await commit.append([Slot(Append(found.topic("t").topic_id, 0, client_batch("a")))])
    assert len(open_files_of(log_dir)) == 1
    await commit.close()


async def rest(log_dir: str) -> None:
    """A REST service's two groups."""
    commit = GroupCommit(catalog(log_dir), CommitLimits(linger_ms=0))
    for _ in range(2):
        await commit.produce("t", rows("a", partition=0), None)
    assert len(open_files_of(log_dir)) == 1
    await commit.close()


@pytest.mark.parametrize("service", [gateway, rest])
def test_are_those_of_a_service(
    log_dir: str, service: Callable[[str], Coroutine[Any, Any, None]]
) -> None:
    asyncio.run(service(log_dir))

    assert len(list(Path(log_dir, "__shared").iterdir())) == 1
    assert values(log_dir) == {0: ["a", "a"]}
    assert open_files_of(log_dir) == []


def test_of_a_rest_service_begin_a_file_when_a_merge_takes_all_slices_meanwhile(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def produce() -> None:
        commit = GroupCommit(catalog(log_dir), CommitLimits(linger_ms=0))
        for value in "ab":
            await commit.produce("t", rows(value, partition=0), None)
        with monkeypatch.context() as patched:
            patched.setattr(SharedSegment, "close", merged_meanwhile)
            await commit.produce("t", rows("c", partition=0), None)
        await commit.close()

    def merged_meanwhile(segment: SharedSegment) -> None:
        close(segment)
        run(merge_segments, log_dir, seal=False)

    close = SharedSegment.close
    asyncio.run(produce())

    assert image(log_dir).partition(0).entries()[-1].log_position == 0
    assert values(log_dir) == {0: ["a", "b", "c"]}
