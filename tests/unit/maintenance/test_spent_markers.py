"""Markers that compaction drops: those of transactions without a record left."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.maintenance.compaction.spent_markers import SpentMarkers
from sparklog.record.markers import ABORT, COMMIT, encode_marker
from sparklog.record.retain import Retained
from sparklog.record.scan import scan_batches
from tests.client_batches import NOW_MS, client_batch, with_fields

NOBODY = -1


class Batch(NamedTuple):
    """A batch of one offset: a record, or a marker of a kind."""

    producer: int
    kind: int | None = None

    def at(self, offset: int) -> bytes:
        if self.kind is None:
            return client_batch("x", producer_id=self.producer, base_offset=offset)
        return encode_marker(self.kind, self.producer, 0, NOW_MS, offset, 0)


def record(producer: int = 7) -> Batch:
    return Batch(producer)


def commit(producer: int = 7) -> Batch:
    return Batch(producer, COMMIT)


def abort(producer: int = 7) -> Batch:
    return Batch(producer, ABORT)


def left(windows: Sequence[Sequence[Batch]], end_offset: int = -1) -> list[int]:
    """The offsets that stay of windows that follow one another."""
    markers, offset, found = SpentMarkers(end_offset), 0, list[int]()
    for window in windows:
        data = b"".join(one.at(offset + place) for place, one in enumerate(window))
        offset += len(window)
        retained = markers.without_spent(whole(data))
        again = scan_batches(retained.data).batches
        assert again.base_offset.tolist() == retained.batches.base_offset.tolist()
        assert again.position.tolist() == retained.batches.position.tolist()
        found += retained.batches.base_offset.tolist()
    return found


def whole(data: bytes) -> Retained:
    return Retained(
        data=np.frombuffer(data, np.uint8),
        batches=scan_batches(data).batches,
        min_timestamp=NOW_MS,
        delete_horizon_ms=None,
    )


def naive(batches: Sequence[Batch]) -> list[int]:
    """One batch after another."""
    ended: dict[int, bool] = {}
    found = []
    for offset, one in enumerate(batches):
        if one.kind is None or not ended.get(one.producer, False):
            found.append(offset)
        if one.producer != NOBODY:
            ended[one.producer] = one.kind is not None
    return found


@pytest.mark.parametrize(
    ("batches", "stays"),
    [
        ([commit()], [0]),
        ([commit(), commit(), commit()], [0]),
        ([record(), commit(), commit(), record(), commit()], [0, 1, 3, 4]),
        ([commit(7), commit(8), commit(7), commit(8)], [0, 1]),
        ([commit(7), record(8), commit(7)], [0, 1]),
        ([abort(), commit(), abort(), abort()], [0]),
        ([record(), abort(), abort(7), abort(8)], [0, 1, 3]),
        ([record(NOBODY), record(NOBODY)], [0, 1]),
        ([], []),
    ],
)
def test_are_those_behind_another_marker(batches: list[Batch], stays: list[int]) -> None:
    assert left([batches]) == stays


def test_the_last_batch_of_a_round_stays() -> None:
    assert left([[commit(), commit(), commit()]], end_offset=3) == [0, 2]


def test_a_marker_of_another_form_stays() -> None:
    longer = with_fields(client_batch("longer"), attributes=0x30, producer_id=7, base_offset=1)
    retained = SpentMarkers(-1).without_spent(whole(commit().at(0) + longer))

    assert retained.batches.base_offset.tolist() == [0, 1]


batches = st.builds(Batch, st.integers(NOBODY, 2), st.none()) | st.builds(
    Batch, st.integers(0, 2), st.sampled_from([COMMIT, ABORT])
)


@given(st.lists(st.lists(batches, max_size=8), max_size=4))
def test_windows_do_not_matter(windows: list[list[Batch]]) -> None:
    assert left(windows) == naive([one for window in windows for one in window])
