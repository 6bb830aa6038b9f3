"""Tables under kill -9: `python -m tests.soak.table [--kills N] [--seed S]`, 1 for anomalies.

A world is a log dir with topics of every kind: plain with gaps, compacted, transactional, and those
of a broker's directory. It lives for some rounds:

    round    a writer, a worker and two builders at once, each killed after a drawn step or not;
             meanwhile, and after it, each topic is looked at
    end      what is open is aborted, jobs run once more, a day later vacuum takes what is left

A look reads, of one version of the table and a later one of the log, random ranges as
`history=auto` does, and holds them against the log alone; and the table against all that was seen.
"""

import argparse
import os
import random
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from sparklog.clock import ManualClock, SystemClock
from sparklog.fleet import LocalFleet
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import PartitionLog
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED, TopicDescription
from sparklog.record.decode import ALL
from sparklog.record.record_batches import BatchMaker
from sparklog.storage import open_files
from sparklog.table.marks import NO_MARK, Mark
from sparklog.table.of_topic import delta_log, table_directory
from sparklog.table.parquet import sorted_by_offset
from sparklog.table.schema import ARROW_SCHEMA, COLUMNS
from sparklog.table.snapshot import Snapshot
from sparklog.table.stitch import Span, stitch
from tests.soak.table_lives import DAY_MS, WRITERS, Life, Live, live, make_topics
from tests.tables import rows_of_files
from tests.transactions import Client

ROUNDS: Final = 12
"""Of a world: then it is looked at as a whole, and another begins."""
CREW: Final = ("writer", "worker", "builder", "builder")
SPARED: Final = 0.1
"""The share of lives that end by themselves."""
STEPS_MAX: Final = {"writer": 120, "worker": 120, "builder": 160}
CHANGES_MAX: Final = 15
"""The same for lives that count the changes of files alone."""
LOOKS: Final = 4
"""Random ranges of a partition at each look."""
Place = tuple[int, int]
"""A partition and an offset."""
Row = tuple[Place, str]
"""A place, and all that stands there as text."""


@dataclass
class Figures:
    """What was done, and what was found."""

    seed: int
    worlds: int = 0
    rounds: int = 0
    kills: int = 0
    looks: int = 0
    records: int = 0
    at: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        steps = "".join(f"  {count:5d}  {what}\n" for what, count in self.at.most_common())
        found = "".join(f"  {one}\n" for one in self.found[:20])
        return (
            f"seed {self.seed}: {self.kills} kills in {self.rounds} rounds of {self.worlds} "
            f"worlds, {self.looks} ranges compared, {self.records} rows of tables\n{steps}{found}"
            f"  {len(self.found)} anomalies"
        )


def torment(folder: Path, seed: int, kills: int) -> Figures:
    """Let world after world live until so many processes were killed."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # a life is too short to load kernels
    figures = Figures(seed)
    while figures.kills < kills and not figures.found:
        figures.worlds += 1
        place = folder / str(figures.worlds)
        World(place, figures).live(kills)
        print(f"world {figures.worlds}: {figures.kills} kills so far", flush=True)
        if not figures.found:
            shutil.rmtree(place)
    return figures


class World:
    """A log dir and its processes."""

    def __init__(self, folder: Path, figures: Figures) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._log_dir = str(folder / "log")
        self._figures = figures
        self._name = f"{figures.seed}.{figures.worlds}"
        self._draw = random.Random(self._name)
        self._processes = get_context("forkserver")
        self._processes.set_forkserver_preload(["tests.soak.table_lives"])
        self._catalog = Catalog(open_files(self._log_dir), flush=False)
        self._known: dict[str, Known] = {}
        self._topics = make_topics(self._log_dir, self._catalog)

    def live(self, kills: int) -> None:
        """Live for some rounds, fewer when there were kills enough; then end."""
        for number in range(ROUNDS):
            if self._figures.kills >= kills or self._figures.found:
                break
            self._round(number)
            self._figures.rounds += 1
        if not self._figures.found:
            self._end()

    def _round(self, number: int) -> None:
        lives = [self._life(f"{self._name}.{number}.{at}", role) for at, role in enumerate(CREW)]
        processes = [self._processes.Process(target=live, args=(one,)) for one in lives]
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            self.look(self._draw.choice(self._topics))
        for process in processes:
            process.join()
            self._figures.kills += process.exitcode == -9
            if process.exitcode not in (0, -9):
                self._found(f"a process ended with {process.exitcode}")
            process.close()
        self.look()
        self._read_journal(lives[0].journal)

    def _life(self, seed: str, role: str) -> Life:
        is_spared, counts_changes = self._draw.random() < SPARED, self._draw.random() < 0.5
        most = CHANGES_MAX if counts_changes else STEPS_MAX[role]
        steps = None if is_spared else self._draw.randint(1, most)
        return Life(self._log_dir, role, seed, steps, counts_changes, self._folder / "journal")

    def _read_journal(self, journal: Path) -> None:
        for line in journal.read_text().splitlines() if journal.exists() else ():
            kind, role, text = line.split("\t", 2)
            if kind == "killed":
                self._figures.at[f"{role}: {text}"] += 1
            else:
                self._found(f"{role}: {text}")
        journal.unlink(missing_ok=True)

    def _found(self, what: str) -> None:
        self._figures.found.append(f"{self._folder}: {what}")

    # --- looking -----------------------------------------------------------------------------

    def look(self, *names: str) -> None:
        """Compare table and log of topics, as they are now; of those that have changed."""
        for name in names or self._topics:
            self._look_at(self._catalog.topic(name))

    def _look_at(self, topic: TopicDescription) -> None:
        catalog = self._catalog
        snapshot = delta_log(catalog.files, topic, catalog.clock).snapshot()
        look = Look(TopicReader(catalog.files, topic, catalog.topic_image(topic)), snapshot)
        known = self._known.setdefault(topic.name, Known())
        if not known.is_news(look):
            return
        found = [*snapshot.problems(topic.topic_id), *look.doubled()]
        for log in look.reader.image.partitions.values():
            found += look.differences(log, self._draw)
            found += known.see(log, look)
        found += known.hold(look)
        self._figures.looks += len(look.reader.image.partitions) * 2 * LOOKS
        self._figures.records += len(look.table)
        for line in found:
            self._found(f"{topic.name}: {line}")

    # --- the end -----------------------------------------------------------------------------

    def _end(self) -> None:
        """End what is open, build once more; a day later only files that are named are left."""
        instance = Live(self._catalog)
        for name in WRITERS:
            Client(instance, name).init()
        self._run(self._catalog, "build_table", build_table, rebuild=False)
        self.look()
        later = ManualClock(SystemClock().now_ms() + DAY_MS)
        catalog = Catalog(open_files(self._log_dir), later, flush=False)
        self._run(catalog, "vacuum", vacuum)
        self._run(catalog, "verify", verify, repair=False, table=True)
        for name in self._topics:
            self._judge(catalog, catalog.topic(name))
        self.look()

    def _judge(self, catalog: Catalog, topic: TopicDescription) -> None:
        """The files that are there are those of the table; delta-rs finds the same rows."""
        snapshot = delta_log(catalog.files, topic, catalog.clock).snapshot()
        logs = catalog.topic_image(topic).partitions
        directory = table_directory(topic)
        there = {path.name for path in Path(self._log_dir, directory).glob("*.parquet")}
        if there != set(snapshot.files):
            self._found(f"{topic.name}: files {sorted(there ^ set(snapshot.files))}")
        marks = snapshot.marks(topic.topic_id).partitions
        ends = {
            at: max(marks.get(at, NO_MARK).end, log.log_start_offset) for at, log in logs.items()
        }
        behind = [at for at, log in logs.items() if ends[at] != log.log_end_offset]
        if behind:
            self._found(f"{topic.name}: the table of partitions {behind} does not end with the log")
        if not snapshot.files and not Path(self._log_dir, directory).is_dir():
            return  # no record was ever there to be copied
        judged = DeltaTable(Path(self._log_dir, directory)).to_pyarrow_table()
        rows = rows_of_files(catalog.files, topic, snapshot.files)
        if sorted_by_offset(judged.select(COLUMNS).cast(ARROW_SCHEMA)) != rows:
            self._found(f"{topic.name}: delta-rs reads other rows")

    def _run(self, catalog: Catalog, name: str, job: Any, **options: bool) -> None:
        def note(report: StepReport) -> None:
            for problem in report.outcome.problems if report.outcome else ():
                self._found(f"{name}: {problem}")

        JobRun(name=name, job=job, options=options).run(JobContext(catalog, LocalFleet()), note)


# --- one look ------------------------------------------------------------------------------------


@dataclass
class Look:
    """One version of a table, and one of the log that is not older."""

    reader: TopicReader
    snapshot: Snapshot

    def __post_init__(self) -> None:
        self.marks = self.snapshot.marks(self.reader.topic.topic_id).partitions

    @cached_property
    def rows(self) -> list[Row]:
        """All rows of the table."""
        files, topic = self.reader.files, self.reader.topic
        return list(places(rows_of_files(files, topic, self.snapshot.files)))

    @cached_property
    def table(self) -> dict[Place, str]:
        """The rows by place."""
        return dict(self.rows)

    def doubled(self) -> list[str]:
        """Rows that the table has twice."""
        counts = Counter(place for place, _ in self.rows)
        return [
            f"{place} is {count} times in the table" for place, count in counts.items() if count > 1
        ]

    def log_rows(self, log: PartitionLog, start: int, end: int, isolation: str) -> Iterator[Row]:
        """What `history=log` reads."""
        to_batch = BatchMaker(self.reader.topic.name, log.partition, COLUMNS)
        slices = self.reader.slices(log.partition, start, end)
        for records in read_slices(
            self.reader.files, self.reader.directory, slices, columns=ALL, isolation=isolation
        ):
            yield from places(pa.Table.from_batches([to_batch(records)]))

    def differences(self, log: PartitionLog, draw: random.Random) -> Iterator[str]:
        """Yield the ranges that `history=auto` would read otherwise than the log alone."""
        mark = self.marks.get(log.partition, NO_MARK)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            low, high = log.log_start_offset, log.end_offset(isolation)
            for number in range(LOOKS):
                start, end = (
                    sorted(draw.randint(low, high) for _ in range(2)) if number else (low, high)
                )
                if start < end and not self._is_alike(log, (start, end), mark, isolation):
                    yield (
                        f"partition {log.partition}, [{start}, {end}), {isolation}, table "
                        f"{self.snapshot.version} to {mark}: auto has other rows than the log"
                    )

    def _is_alike(self, log: PartitionLog, span: Span, mark: Mark, isolation: str) -> bool:
        parts = stitch(*span, mark, log, isolation)
        auto = [
            (place, row)
            for place, row in self.rows
            if place[0] == log.partition and any(a <= place[1] < b for a, b in parts.table)
        ]
        for start, end in parts.log:
            auto += self.log_rows(log, start, end, isolation)
        return sorted(auto) == sorted(self.log_rows(log, *span, isolation))


def places(table: pa.Table) -> Iterator[Row]:
    """Yield rows as their place and all else."""
    for row in table.to_pylist():
        yield (row["partition"], row["offset"]), repr([*row.values()])


@dataclass
class Known:
    """What was seen of a topic: its committed records, and rows of its table since it was made."""

    seen: dict[Place, str] = field(default_factory=dict)
    held: dict[Place, str] = field(default_factory=dict)
    made: object = None
    state: object = None

    def is_news(self, look: Look) -> bool:
        """Whether table or log have changed since the last look."""
        before, logs = self.state, look.reader.image.partitions
        self.state = look.snapshot.version, {number: log.state for number, log in logs.items()}
        self.state = self.state, [[one.key for one in log.entries()] for log in logs.values()]
        return self.state != before

    def see(self, log: PartitionLog, look: Look) -> Iterator[str]:
        """Note the log's committed records; yield what is another record than before."""
        number, mark = log.partition, look.marks.get(log.partition, NO_MARK)
        start, end = log.log_start_offset, log.last_stable_offset
        for place, row in look.log_rows(log, start, end, READ_COMMITTED) if start < end else ():
            if self.seen.setdefault(place, row) != row:
                yield f"another record at {place}"
            exact = max(mark.start, log.cleaner_offset) <= place[1] < mark.end
            if exact and look.table.get(place) != row:
                yield f"the table {mark} has {look.table.get(place)} at {place}, the log {row}"

        strange = [
            place
            for place in look.table
            if place[0] == number and max(mark.start, start, log.cleaner_offset) <= place[1]
            if place[1] >= mark.end or place not in self.seen
        ]
        if strange:
            yield f"the table {mark} has rows that the log has not: {strange[:5]}"

    def hold(self, look: Look) -> Iterator[str]:
        """Note the table's rows; yield those that are gone, or are others than were seen."""
        made = (look.snapshot.metadata or {}).get("createdTime")
        if made != self.made:
            self.held, self.made = {}, made
        wrong = [place for place, row in look.table.items() if self.seen.get(place, row) != row]
        gone = [
            place
            for place, row in self.held.items()
            if place[1] >= look.marks[place[0]].start and look.table.get(place) != row
        ]
        if wrong or gone:
            yield f"the table has others than were seen at {wrong[:5]}, and lost {gone[:5]}"
        self.held = look.table


def main(folder: Path, seed: int, kills: int) -> int:
    """Run and print; return the exit code. The folder is removed when all is well."""
    print(f"seed {seed}, {kills} kills, in {folder}", flush=True)
    figures = torment(folder, seed, kills)
    print(figures, flush=True)
    if not figures.found:
        shutil.rmtree(folder)
    return 1 if figures.found else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.soak.table", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--kills", type=int, default=1000)
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="sparklog-soak-table-"))
    sys.exit(main(place, arguments.seed, arguments.kills))
