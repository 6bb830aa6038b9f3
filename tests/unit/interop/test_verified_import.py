"""Verify finds nothing wrong with what was imported, whatever a broker's cleaner has left."""

import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.interop.broker_files.producer_snapshot import ProducerState, encode_snapshot
from sparklog.interop.imports.import_log import ImportOptions
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.verification.verify import verify
from tests.broker_files import T0, TRANSACTIONAL, batch, emptied_marker, marker, write_segment
from tests.maintenance import run
from tests.unit.interop.conftest import Interop


class Event(NamedTuple):
    """A batch of a producer, or a marker of a kind; 2 is one that a cleaner has emptied.

    With `gap` the cleaner has dropped what was before it.
    """

    producer: int
    kind: int | None
    gap: bool
    ends_segment: bool

    def at(self, offset: int) -> bytes:
        if self.kind is None:
            return batch(offset, 1, producer=self.producer, attributes=TRANSACTIONAL)
        if self.kind == 2:
            return emptied_marker(offset, self.producer)
        return marker(offset, self.producer, self.kind)


chance = st.sampled_from([False, False, False, True])
events = st.builds(Event, st.integers(7, 8), st.sampled_from([None, None, 0, 1, 2]), chance, chance)


def written(folder: Path, some: list[Event]) -> None:
    """The segments of a broker with these batches."""
    offset = base = 0
    data: list[bytes] = []
    for event in some:
        offset += event.gap
        data.append(event.at(offset))
        offset += 1
        if event.ends_segment:
            write_segment(folder, base, *data)
            base, data = offset, []
    write_segment(folder, base, *data)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=16), st.integers(0, 16))
def test_a_sound_import_has_no_problems(some: list[Event], first: int) -> None:
    """Goal: no false alarm. Method: imports in two parts, then a merge."""
    with tempfile.TemporaryDirectory() as path:
        interop = Interop(Path(path, "broker"), Path(path, "log"))
        interop.broker.mkdir()
        folder = interop.partition()
        for part in (some[:first], some):
            written(folder, part)
            interop.run(ImportOptions(flush=False))
            assert problems(interop) == []
        run(merge_segments, interop.log_dir, seal=True)
        assert problems(interop) == []


def test_a_brokers_snapshot_is_believed(interop: Interop) -> None:
    """It knows a producer of whom the log has nothing."""
    folder = interop.partition()
    write_segment(folder, 0, batch(0, producer=7, sequence=0))
    states = [ProducerState(one, 0, 1, 1, 1, T0, -1, -1) for one in (7, 9)]
    (folder / f"{2:020d}.snapshot").write_bytes(encode_snapshot(states))
    interop.run(ImportOptions(flush=False))

    assert set(interop.log().producers) == {7, 9}
    assert problems(interop) == []


def problems(interop: Interop) -> list[str]:
    """What verify finds."""
    _, reports = run(verify, interop.log_dir, repair=False, records=True)
    return [line for one in reports for line in one.as_row()["problems"]]
