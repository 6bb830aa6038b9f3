"""The Delta store against the in-memory one: any history, the same answers, the same facts."""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import SparklogError
from sparklog.log.names import parse_segment_name, uuid7_ms
from sparklog.manifest import folding
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.manifest.memory import MemoryManifestStore
from sparklog.manifest.rows import COMMIT, LIVE, REMOVED
from sparklog.manifest.store import (
    RECEIPT_TTL_MS,
    Change,
    Committed,
    ManifestStore,
    PartitionState,
    Plan,
)
from sparklog.manifest.tables import segment_entries
from sparklog.model import AbortedRange, SegmentEntry
from tests.manifests import append, appending, at, changing, delta_store, indexed, removing, segment

SMALL_FAN = 3
PARTITIONS = st.integers(0, 2)
SOME = st.integers(0, 2**20 - 1)
TRANSACTIONS = st.sampled_from(
    [{}, {"app_id": "key"}]
    + [{"app_id": app, "version": version} for app in "ab" for version in range(4)]
)
OFFSETS = st.integers(0, 60)


class History(RuleBasedStateMachine):
    """Goal: folding, caching, opening anew and a second handle change nothing that can be seen.

    Method: random changes go to the specification and to one of two handles on one Delta table,
    whose files fold after three instead of ten. Answers, errors, and all rows are compared.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock(SystemClock().now_ms())
        self.oracle = MemoryManifestStore(self.clock)
        self.stores = [self.opened(), self.opened()]
        self.fan = folding.FAN
        folding.FAN = SMALL_FAN

    def teardown(self) -> None:
        folding.FAN = self.fan
        self.folder.cleanup()

    def opened(self) -> DeltaManifestStore:
        return delta_store(Path(self.folder.name), self.clock)

    def both(self, plan: Plan, handle: int = 0, **transaction: Any) -> None:
        expected = answer(lambda: self.oracle.commit(plan, **transaction))

        assert answer(lambda: self.stores[handle].commit(plan, **transaction)) == expected

    def live(self, number: int) -> list[SegmentEntry]:
        """Some live segments: up to three neighbours."""
        entries = segment_entries(self.oracle.snapshot().live)
        first = number % max(1, len(entries))
        return entries[first : first + 1 + number % 3]

    @initialize(entries=st.integers(0, 12))
    def start(self, entries: int) -> None:
        for number in range(entries):
            entry = segment(number % 3, made_ms=self.clock.now_ms())
            self.both(appending(entry))

    @rule(
        partitions=st.lists(PARTITIONS, max_size=4),
        records=st.integers(1, 5),
        handle=st.integers(0, 1),
        transaction=TRANSACTIONS,
    )
    def write(
        self, partitions: list[int], records: int, handle: int, transaction: dict[str, Any]
    ) -> None:
        aborted = (AbortedRange(7, -3, 2),) if records > 3 else ()
        entries = [
            segment(number, records, self.clock.now_ms(), aborted=aborted) for number in partitions
        ]
        self.both(appending(*entries, partition_count=records), handle, **transaction)

    @rule(partition=PARTITIONS, base=OFFSETS, allow_gaps=st.booleans())
    def write_at(self, partition: int, base: int, allow_gaps: bool) -> None:
        entry = at(base, segment(partition, made_ms=self.clock.now_ms()))
        self.both(changing(segments=[entry], allow_gaps=allow_gaps))

    @rule(number=SOME, handle=st.integers(0, 1))
    def remove(self, number: int, handle: int) -> None:
        paths = [entry.log_path for entry in self.live(number)]
        self.both(removing(*paths, removed_ms=self.clock.now_ms()), handle)

    @precondition(lambda self: bool(self.live(0)))
    @rule(number=SOME, handle=st.integers(0, 1))
    def merge(self, number: int, handle: int) -> None:
        """Takes neighbours, which may be of several partitions: then it is refused or overlaps."""
        old = self.live(number)
        new = segment(old[0].partition, 1, self.clock.now_ms(), base_offset=old[0].base_offset)
        merged = replace(new, next_offset=max(old[0].next_offset, old[-1].next_offset))
        change = Change(
            segments=[merged],
            remove=[entry.log_path for entry in old],
            removed_ms=self.clock.now_ms(),
        )
        self.both(lambda _: change, handle)

    @rule(number=SOME, handle=st.integers(0, 1))
    def index(self, number: int, handle: int) -> None:
        new = [indexed(entry, self.clock.now_ms()) for entry in self.live(number)]
        self.both(changing(replace=new), handle)

    @rule(partition=PARTITIONS, numbers=st.tuples(OFFSETS, OFFSETS, PARTITIONS, OFFSETS, OFFSETS))
    def grow(self, partition: int, numbers: tuple[int, int, int, int, int]) -> None:
        self.both(changing(partitions={partition: PartitionState(*numbers)}))

    @rule(ms=st.sampled_from([1, RECEIPT_TTL_MS // 2, RECEIPT_TTL_MS]))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @precondition(lambda self: bool(self.live(0)))
    @rule(number=SOME)
    def vacuum(self, number: int) -> None:
        """The horizon of a live segment: old ones are known, so they stay."""
        name = parse_segment_name(self.live(number)[0].log_path.rpartition("/")[2])

        assert name is not None
        assert name.uuid is not None
        self.both(changing(vacuum_horizon_ms=uuid7_ms(name.uuid)))

    @rule(handle=st.integers(0, 1))
    def reopen(self, handle: int) -> None:
        self.stores[handle] = self.opened()

    @invariant()
    def the_same_is_known(self) -> None:
        for store in self.stores:
            assert facts(store) == facts(self.oracle)
        expected = sorted(self.oracle._segments.values(), key=lambda entry: entry.log_path)
        assert all_segments(self.stores[0]) == expected


def answer(commit: Callable[[], Committed]) -> Committed | tuple[type[SparklogError], str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return commit()
        except SparklogError as error:
            return type(error), str(error)


def facts(store: ManifestStore) -> tuple[object, ...]:
    found = store.snapshot()
    states = {number: state for number, state in found.states.items() if state != PartitionState()}
    live = found.live.to_pylist()
    return found.version, states, live, found.closed_ms, found.vacuum_horizon_ms


def all_segments(store: DeltaManifestStore) -> list[SegmentEntry]:
    """Live and removed ones, in whatever files they are."""
    entries = [
        entry
        for rows in store._read_roles(COMMIT, LIVE, REMOVED)
        for entry in segment_entries(rows.segments)
    ]
    return sorted(entries, key=lambda entry: entry.log_path)


def test_a_history_of_every_rule() -> None:
    """None of them is left to what is drawn."""
    history = History()
    history.start(4)
    history.write([0, 1], 4, 0, {"app_id": "a", "version": 1})
    history.write_at(0, 60, allow_gaps=True)
    history.write_at(0, 5, allow_gaps=False)
    history.index(2, 1)
    history.merge(0, 0)
    history.remove(1, 1)
    history.grow(1, (0, 40, 0, 0, 0))
    history.reopen(1)
    history.wait(1)
    history.vacuum(0)

    history.the_same_is_known()
    history.teardown()


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)


class TestManyCommits:
    def test_files_stay_few(self, tmp_path: Path) -> None:
        """The table of n commits has O(log n) files, and what opening reads is less yet."""
        store = delta_store(tmp_path)
        counts = []
        for _ in range(300):
            append(store, segment())
            counts.append(len(store._log.file_names()))

        assert max(counts) <= 3 * folding.FAN
        assert len(list(store.snapshot().segments(0))) == 300
