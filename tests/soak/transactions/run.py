"""One run: gateways on one log dir, clients of theirs, and who kills and pauses both.

    run(folder, seed, seconds, nemesis)
        gateways                      three processes, killed and paused, started again
        writers, copiers, the bank    transactional producers, born again when they are killed
        followers, an auditor         read all the while
        the nemesis (this process)    SIGKILL, or SIGSTOP and SIGCONT, drawn from seed; a sleeper
                                      kills nobody, and stops many for long
        all killed; what is open is ended by its timeout
        the logs read once more, every version audited; check(history)

A seed fixes what everybody draws, not how the processes interleave.
"""

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.alive import DEAD_MS
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.wire.standstill import STILL_MS
from tests.soak.run import Processes, Role
from tests.soak.setup import Life
from tests.soak.transactions.bank import audit, audit_all
from tests.soak.transactions.checker import Found, History, check
from tests.soak.transactions.history import (
    COMMITTED,
    UNCOMMITTED,
    Audited,
    Ended,
    Event,
    Outcome,
    Pairs,
    Polled,
    load,
)
from tests.soak.transactions.history import (
    Final as FinalRead,
)
from tests.soak.transactions.producers import transfer, write
from tests.soak.transactions.readers import copy, follow_committed, follow_uncommitted
from tests.soak.transactions.setup import (
    GATEWAYS,
    KEYS,
    OPTIONS,
    PARTITIONS,
    TIMEOUT_MS,
    TOPICS,
    place_of,
)
from tests.waiting import until
from tests.wire.processes import GatewayProcess

ROLES: Final[dict[str, tuple[Role, int]]] = {
    "teller": (transfer, 8),
    "writer": (write, 2),
    "copier": (copy, 3),
    "committed": (follow_committed, 2),
    "uncommitted": (follow_uncommitted, 1),
    "auditor": (audit, 1),
}
"""What runs, and how many of each."""
KILL_EVERY_S: Final = 1.5
"""The mean time between two acts of the nemesis."""
PAUSES: Final = 0.4
"""The share of acts that only pause a process."""
AT_GATEWAYS: Final = 0.4
"""The share of acts that hit a gateway."""
PAUSE_MAX_S: Final = 4.0
ROUND_S: Final = 120.0
"""A run starts from an empty log: its history fits into memory, and no entry of it is cleaned."""
LONG_PAUSES: Final = 0.1
LONG_PAUSE_S: Final = TIMEOUT_MS / 1000 + 2
"""Longer than a transaction may take."""
SLEEPS_S: Final = (LONG_PAUSE_S, DEAD_MS / 1000 + 4, STILL_MS / 1000 + 4)
"""The same; longer than a gateway lives without a sign; longer than it may stand still."""


@dataclass(slots=True)
class Figures:
    """What a run did."""

    seed: int
    seconds: float = 0.0
    acts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    polls: int = 0
    records: int = 0
    visible: int = 0
    versions: int = 0
    closed: int = 0
    found: list[Found] = field(default_factory=list)

    def __str__(self) -> str:
        found = "".join(f"  {found.anomaly}: {found.where}\n" for found in self.found[:20])
        return (
            f"seed {self.seed}: {self.seconds:.1f} s, {_told(self.acts)}\n"
            f"  transactions: {_told(self.outcomes)}\n"
            f"  {self.records} records, {self.visible} of them committed, {self.polls} polls\n"
            f"  {self.versions} versions audited, {self.closed} of them without a transaction\n"
            f"{found}  {len(self.found)} anomalies; again with --seed {self.seed}"
        )


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


class Nemesis:
    """Kills and pauses."""

    def __init__(self, processes: Processes, gateways: list[GatewayProcess], figures: Figures):
        self._processes = processes
        self._gateways = gateways
        self._figures = figures
        self._draw = random.Random(figures.seed)

    def rage(self, end: float) -> None:
        """Act until a time."""
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self._draw.expovariate(1 / KILL_EVERY_S)))
            self._figures.acts["suicides"] += self._processes.revive()
            self._act(end)

    def _act(self, end: float) -> None:
        if self._draw.random() < AT_GATEWAYS:
            self._at_gateway(self._draw.choice(self._gateways), end)
        else:
            self._at_client(self._draw.choice(self._processes.names()), end)

    def _pause_s(self, end: float) -> float:
        is_long = self._draw.random() < LONG_PAUSES
        seconds = LONG_PAUSE_S if is_long else self._draw.uniform(0, PAUSE_MAX_S)
        return max(min((end - time.monotonic()) / 2, seconds), 0)

    def _at_gateway(self, gateway: GatewayProcess, end: float) -> None:
        if self._draw.random() < PAUSES:
            gateway.signal(signal.SIGSTOP)
            time.sleep(self._pause_s(end))
            gateway.signal(signal.SIGCONT)
            self._figures.acts["gateways paused"] += 1
        else:
            gateway.kill()
            time.sleep(self._draw.uniform(0, 1))
            gateway.start()
            self._figures.acts["gateways killed"] += 1

    def _at_client(self, name: str, end: float) -> None:
        if self._draw.random() < PAUSES:
            self._processes.pause(name, self._pause_s(end))
            self._figures.acts["clients paused"] += 1
        else:
            self._processes.kill(name)
            self._figures.acts["clients killed"] += 1


class Sleeper(Nemesis):
    """Stops a gateway, or clients, or both, for longer than a transaction may take."""

    def _act(self, end: float) -> None:
        gateways = self._draw.sample(self._gateways, self._draw.randint(0, 1))
        names = self._processes.names()
        most = len(names) // 2
        clients = self._draw.sample(names, self._draw.randint(0 if gateways else 1, most))
        seconds = self._draw.choice(SLEEPS_S)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for gateway in gateways:
                gateway.signal(number)
            for name in clients:
                self._processes.signal(name, number)
            time.sleep(seconds if number == signal.SIGSTOP else 0)
        self._figures.acts[f"gateways stopped for {seconds:.0f} s"] += len(gateways)
        self._figures.acts[f"clients stopped for {seconds:.0f} s"] += len(clients)


NEMESES: Final = {"killer": Nemesis, "sleeper": Sleeper}


def run(folder: Path, seed: int, seconds: float, nemesis: str) -> Figures:
    """Run for so many seconds in an empty folder, check, and tell what was done and found.

    `nemesis` is one of NEMESES.
    """
    admin = AdminClient(folder / "log")
    admin.create_topics([NewTopic(name, PARTITIONS) for name in TOPICS])
    figures = Figures(seed)
    with _gateways(folder) as gateways:
        began = time.monotonic()
        deadline = began + seconds + 600
        processes = Processes(folder, seed, deadline, ROLES, "tests.soak.transactions.run")
        try:
            NEMESES[nemesis](processes, gateways, figures).rage(began + seconds)
        finally:
            processes.kill_all()
        _wait_for_ends(folder)
        figures.seconds = time.monotonic() - began
    _read_all(folder, seed)
    _sum_up(folder, figures)
    return figures


@contextmanager
def _gateways(folder: Path) -> Iterator[list[GatewayProcess]]:
    gateways = [GatewayProcess(folder / "log", *OPTIONS) for _ in range(GATEWAYS)]
    (folder / "bootstrap").write_text(",".join(one.address for one in gateways))
    started: list[GatewayProcess] = []
    try:
        for one in gateways:
            one.start()
            started.append(one)
        yield gateways
    finally:
        for one in started:
            with suppress(ProcessLookupError):
                one.signal(signal.SIGCONT)
            one.kill()


def _wait_for_ends(folder: Path) -> None:
    """Return when the gateways have ended what the killed producers had left open."""
    catalog = Life(folder, 0, "", 0, 0, 0.0).catalog()
    until(lambda: not catalog.image().transactional_ids.open)


def _read_all(folder: Path, seed: int) -> None:
    """Read the log at the end, and audit every version."""
    life = Life(folder, seed, "the end", 0, 0, 0.0)
    journal = life.journal()
    for isolation in (COMMITTED, UNCOMMITTED):
        found = {key: _read(life, key, isolation) for key in KEYS}
        journal.note(FinalRead(isolation, tuple(found.items())))
        if isolation == COMMITTED:
            for audited in audit_all(life, found):
                journal.note(audited)


def _read(life: Life, key: str, isolation: str) -> Pairs:
    topic, number = place_of(key)
    reader = TopicReader.open(life.catalog(), topic)
    log = reader.partition(number)
    slices = reader.slices(number, log.log_start_offset, log.end_offset(isolation))
    return tuple(
        (offset, value.decode())
        for records in read_slices(reader.files, reader.directory, slices, isolation=isolation)
        for offset, value in zip(records.offset.to_pylist(), records.value.to_pylist(), strict=True)
    )


def _sum_up(folder: Path, figures: Figures) -> None:
    events: list[Event] = [event for path in folder.glob("*.jsonl") for event in load(path)]
    history = History(events)
    told = Counter(event.outcome for event in history.of(Ended))
    figures.outcomes = Counter({str(Outcome(name)): count for name, count in told.items()})
    figures.polls = len(history.of(Polled))
    figures.records = sum(map(len, history.final[UNCOMMITTED].values()))
    figures.visible = len(history.visible)
    audits = history.of(Audited)
    figures.versions = len({event.version for event in audits})
    figures.closed = len({event.version for event in audits if event.is_closed})
    figures.found = check(history)


def main(folder: Path, seed: int, seconds: float, nemesis: str) -> int:
    """Run and print, in rounds, each with the next seed; return the exit code.

    The folder of a round in which nothing was found is removed.
    """
    left, code = seconds, 0
    while left > 0:
        place = folder / str(seed)
        place.mkdir()
        print(f"seed {seed}, {min(ROUND_S, left):.0f} s, in {place}", flush=True)
        figures = run(place, seed, min(ROUND_S, left), nemesis)
        print(figures, flush=True)
        if figures.found:
            code = 1
        else:
            shutil.rmtree(place)
        left -= ROUND_S
        seed += 1
    if not code:
        folder.rmdir()
    return code
