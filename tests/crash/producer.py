"""A produce in a process of its own, which may be killed after any of its steps.

A step is an operation on files, of which a commit is one (`put_new`); they are counted by the trace
that keeps them. The processes are forked from one that has imported everything and used none of it.
"""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

from sparklog.clock import SystemClock
from sparklog.log_writer import PRODUCE, TopicWriter, WriteOptions, in_order, plan_write, write_of
from sparklog.metadata.catalog import Catalog, Landed
from sparklog.model import OffsetRange, SegmentEntry
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import Operation
from tests.logs import Place, columns
from tests.metadata_logs import keep_house_now
from tests.tracing import TracingFiles

PARTITIONS = 2
RECORDS = 40
TASKS = 2

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", __name__])


@dataclass(frozen=True)
class Write:
    """One idempotent produce of `TASKS` tasks to topic `t`: values `<name>-<task>-<number>`."""

    name: str = "w"
    version: int = 1
    app_id: str = "app"

    def values(self, partition: int) -> list[str]:
        """What it adds to a partition, in the order of the log."""
        numbers = range(partition, RECORDS, PARTITIONS)
        return [f"{self.name}-{task}-{number}" for task in range(TASKS) for number in numbers]


class Fatal(list[Operation]):
    """A trace that kills this process once it has as many steps as were allowed."""

    def __init__(self, steps: int | None) -> None:
        super().__init__()
        self._steps = steps

    def append(self, step: Operation) -> None:
        """Signal 0 is none."""
        super().append(step)
        os.kill(os.getpid(), signal.SIGKILL if len(self) == self._steps else 0)


def run(log_dir: Place, write: Write, steps: int | None = None) -> tuple[Landed, list[Operation]]:
    """Write and commit; return the answer and the steps it took. Killed after `steps` steps."""
    trace = Fatal(steps)
    inner = LocalFiles(str(log_dir)) if isinstance(log_dir, str | Path) else log_dir
    files = TracingFiles(inner, trace)
    catalog = Catalog(files, after_commit=keep_house_now)
    options = WriteOptions(segment_bytes=900, batch_size=300)
    plan = plan_write(catalog, "t", options)
    written: list[tuple[int, list[SegmentEntry]]] = []
    for task in range(TASKS):
        writer = TopicWriter(files, plan, SystemClock(), seed=task)
        values = [f"{write.name}-{task}-{number}" for number in range(RECORDS)]
        partitions = pa.array([number % PARTITIONS for number in range(RECORDS)], pa.int32())
        writer.write(columns(values), partitions)
        written.append((task, writer.close()))
    once = write_of(plan, in_order(written), app_id=write.app_id, version=write.version)
    (committed,) = catalog.commit_all([once], operation=PRODUCE)
    return committed, list(trace)


def run_many(log_dir: str, app_id: str, count: int) -> dict[str, tuple[OffsetRange, ...]]:
    """Produce `count` times; return the answers by the name of the write."""
    writes = [Write(f"{app_id}.{version}", version, app_id) for version in range(count)]
    return {write.name: run(log_dir, write)[0].ranges or () for write in writes}


def together(log_dir: str, processes: int, count: int) -> dict[str, tuple[OffsetRange, ...]]:
    """Let this and other processes produce at once; return all their answers."""
    names = [f"process{number}" for number in range(1, processes)]
    with ProcessPoolExecutor(len(names), mp_context=_CONTEXT) as pool:
        calls = [pool.submit(run_many, log_dir, name, count) for name in names]
        answers = run_many(log_dir, "process0", count)
        return answers | {name: got for call in calls for name, got in call.result().items()}


def in_process(target: Callable[..., object], *arguments: object) -> int:
    """Run a function in a process of its own; return its exit code, minus the signal if killed."""
    process = _CONTEXT.Process(target=target, args=arguments)
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return code
