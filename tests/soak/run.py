"""One run: starts the processes, kills and pauses them at random, and checks what they saw.

    run(folder, seed, seconds)
        producers, readers, an administrator       each a process, born again when it is killed
        workers                                    each runs the jobs, in any order, all the time
        the nemesis (this process)                 SIGKILL, or SIGSTOP and SIGCONT, drawn from seed
        all killed; some producers settle          the others leave a write of unknown outcome
        every job once more, when all delays are over
        the logs read once more; check(history)

There are two topics: one that keeps every record up to its retention, and a compacted one.

A seed fixes what everybody draws, not how the processes interleave.
"""

import multiprocessing
import os
import random
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

from sparklog.admin import AdminClient, NewTopic
from tests.soak.administrator import administer
from tests.soak.checker import Anomaly, Found, History, check
from tests.soak.history import Abandoned, Answered, Begun, Failed, Polled, Ran, load
from tests.soak.jobs import run_all, work
from tests.soak.keyed import (
    check_keyed,
    cleaner_offsets,
    produce_keyed,
    read_all_keyed,
    read_keyed,
)
from tests.soak.producer import produce
from tests.soak.reader import follow, read_all, wander
from tests.soak.setup import (
    CONFIGS,
    KEYED,
    KEYED_CONFIGS,
    KEYED_PARTITIONS,
    PARTITIONS,
    TOPIC,
    Life,
)

Role = Callable[[Life], None]

ROLES: Final[dict[str, tuple[Role, int]]] = {
    "producer": (produce, 3),
    "follower": (follow, 2),
    "wanderer": (wander, 1),
    "administrator": (administer, 1),
    f"{KEYED}/producer": (produce_keyed, 2),
    f"{KEYED}/reader": (read_keyed, 2),
    "worker": (work, 2),
}
"""What runs, and how many of each."""
KILL_EVERY_S: Final = 0.4
"""The mean time between two acts of the nemesis."""
PAUSES: Final = 0.25
"""The share of acts that only pause a process."""
END: Final = "the end"
"""Who reads the logs when all is over."""
PAUSE_MAX_S: Final = 3.0
"""The longest pause: longer than committers wait for each other's turn."""


@dataclass(slots=True)
class Figures:
    """What a run did."""

    seed: int
    seconds: float = 0.0
    kills: int = 0
    suicides: int = 0
    pauses: int = 0
    commits: int = 0
    replays: int = 0
    abandoned: int = 0
    unknown: int = 0
    polls: int = 0
    records: int = 0
    deleted: int = 0
    partitions: int = 0
    keyed: int = 0
    kept: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    outlived: int = 0
    found: list[Found] = field(default_factory=list)

    def __str__(self) -> str:
        found = "".join(f"  {found.anomaly}: {found.where}\n" for found in self.found[:20])
        return (
            f"seed {self.seed}: {self.seconds:.1f} s, {self.kills} kills, "
            f"{self.suicides} suicides, {self.pauses} pauses\n"
            f"  {self.commits} commits of {self.records} records in {self.partitions} partitions, "
            f"{self.deleted} records deleted\n"
            f"  {self.replays} replays answered, {self.abandoned} writes abandoned, "
            f"{self.unknown} of unknown outcome, {self.polls} polls\n"
            f"  compacted topic: {self.keyed} records written, {self.kept} left\n"
            f"  {', '.join(f'{name} {count}' for name, count in sorted(self.jobs.items()))}\n"
            f"  {self.outlived} plans of readers outlived a compaction and a vacuum\n"
            f"{found}  {len(self.found)} anomalies; again with --seed {self.seed}"
        )


class Processes:
    """The processes of a run; forked from one that has imported everything, so born in no time."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        deadline: float,
        roles: Mapping[str, tuple[Role, int]] = ROLES,
        preload: str = "tests.soak.run",
    ) -> None:
        """`preload` is the module that imports what the roles need."""
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([preload])
        self._running: dict[str, tuple[Role, Life, ForkServerProcess]] = {}
        for name, (role, count) in roles.items():
            for number in range(count):
                life = Life(folder, seed, f"{name}-{number}", number, 0, deadline)
                self._bear(role, life)

    def _bear(self, role: Role, life: Life) -> None:
        process = self._context.Process(target=live, args=(role, life), daemon=True)
        process.start()
        self._running[life.name] = role, life, process

    def names(self) -> list[str]:
        """Who runs."""
        return list(self._running)

    def kill(self, name: str) -> None:
        """Kill a process; it is born again."""
        role, life, process = self._running[name]
        process.kill()
        process.join()
        self._bear(role, replace(life, birth=life.birth + 1))

    def pause(self, name: str, seconds: float) -> None:
        """Stop a process for a while."""
        self.signal(name, signal.SIGSTOP)
        time.sleep(seconds)
        self.signal(name, signal.SIGCONT)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a process a signal."""
        process = self._running[name][2]
        if process.pid is not None and process.is_alive():
            # It may be killing itself just now; the fork server takes the dead away.
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def revive(self) -> int:
        """Let those be born again that killed themselves; return how many."""
        dead = [name for name, (_, _, process) in self._running.items() if not process.is_alive()]
        for name in dead:
            self.kill(name)
        return len(dead)

    def kill_all(self) -> None:
        """Kill every process, for good."""
        for _, _, process in self._running.values():
            process.kill()
        for _, _, process in self._running.values():
            process.join()

    def settle(self) -> None:
        """Let every second producer finish what it had begun, and all of the compacted topic."""
        for role, life, _ in list(self._running.values()):
            if (role is produce and life.number % 2 == 0) or role is produce_keyed:
                self._bear(role, replace(life, birth=life.birth + 1, settles=True))
                self._running[life.name][2].join()


def live(role: Role, life: Life) -> None:
    """Run a process to its deadline; what it cannot bear is written down."""
    try:
        role(life)
    except Exception:  # noqa: BLE001 - nothing may fail, whatever it is
        life.journal().note(Failed(f"{life.name}, birth {life.birth}", traceback.format_exc()))


def run(folder: Path, seed: int, seconds: float) -> Figures:
    """Run for so many seconds in an empty folder, check, and tell what was done and found."""
    (folder / KEYED).mkdir()
    topics = [
        NewTopic(TOPIC, PARTITIONS, CONFIGS),
        NewTopic(KEYED, KEYED_PARTITIONS, KEYED_CONFIGS),
    ]
    AdminClient(folder / "log").create_topics(topics)
    figures = Figures(seed)
    began = time.monotonic()
    processes = Processes(folder, seed, began + seconds + 60)
    try:
        _torment(processes, figures, began + seconds)
        processes.kill_all()
        processes.settle()
    finally:
        processes.kill_all()
    figures.seconds = time.monotonic() - began
    unnamed = run_all(Life(folder, seed, "last worker", 0, 0, began))
    figures.found = [Found(Anomaly.LEFT_OVER, path) for path in unnamed]
    read_all(Life(folder, seed, END, 0, 0, began))
    read_all_keyed(Life(folder, seed, f"{KEYED}/{END}", 0, 0, began))
    _sum_up(folder, figures)
    _sum_up_keyed(folder, figures)
    return figures


def _torment(processes: Processes, figures: Figures, end: float) -> None:
    draw = random.Random(figures.seed)
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, draw.expovariate(1 / KILL_EVERY_S)))
        figures.suicides += processes.revive()
        name = draw.choice(processes.names())
        if draw.random() < PAUSES:
            processes.pause(name, min(left / 4, draw.uniform(0, PAUSE_MAX_S)))
            figures.pauses += 1
        else:
            processes.kill(name)
            figures.kills += 1


def _sum_up(folder: Path, figures: Figures) -> None:
    history = history_of(folder)
    answers = history.of(Answered)
    writes = {(event.producer, event.version) for event in answers}
    final = history.polls[-1]
    figures.commits = len(writes)
    figures.replays = sum(event.replayed for event in answers)
    figures.abandoned = len(history.of(Abandoned))
    figures.unknown = len(history.of(Begun)) - figures.commits - figures.abandoned
    figures.polls = len(history.polls)
    figures.records, figures.deleted = sum(final.ends), sum(final.starts)
    figures.partitions = len(final.ends)
    figures.jobs = Counter(event.job for event in history.of(Ran))
    figures.found += check(history)


def _sum_up_keyed(folder: Path, figures: Figures) -> None:
    history, jobs = history_of(folder / KEYED), history_of(folder).of(Ran)
    final = history.polls[-1]
    figures.keyed = sum(final.ends)
    figures.kept = sum(len(read.values) for read in final.reads)
    sweeps = [run for run in jobs if run.topic == KEYED and run.counts.get("files")]
    rounds = [run for run in jobs if run.topic == KEYED and run.counts.get("partitions")]
    figures.outlived = sum(
        all(any(_lies_in(run, poll) for run in runs) for runs in (rounds, sweeps))
        for poll in history.polls
    )
    figures.found += check_keyed(history, cleaner_offsets(Life(folder, 0, END, 0, 0, 0.0)))


def _lies_in(run: Ran, poll: Polled) -> bool:
    return poll.began <= run.began and run.ended <= poll.ended


def history_of(folder: Path) -> History:
    """All that the processes have written down there, what was read at the end last."""
    paths = sorted(folder.glob("*.jsonl"), key=lambda path: path.stem == END)
    return History([event for path in paths for event in load(path)])


def main(folder: Path, seed: int, seconds: float) -> int:
    """Run and print; return the exit code. The folder is removed when all is well."""
    print(f"seed {seed}, {seconds:.0f} s, in {folder}", flush=True)
    figures = run(folder, seed, seconds)
    print(figures, flush=True)
    if not figures.found:
        shutil.rmtree(folder)
    return 1 if figures.found else 0
