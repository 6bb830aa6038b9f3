"""The transactions that `Walked` finds in the batches of a part of a log."""

import numpy as np
import pytest

from sparklog.log_reader.isolation import AbortedSpan
from sparklog.maintenance.verification.walked import Walked
from sparklog.record.batches import byte_view
from sparklog.record.markers import marker_kinds
from sparklog.record.scan import scan_batches
from tests.broker_files import emptied_marker
from tests.verifying import abort, record


def walk(start: int, end: int, *batches: bytes, hides: bool = False) -> Walked:
    data = b"".join(batches)
    found, table = Walked(start), scan_batches(data).batches
    found.add(table, marker_kinds(byte_view(data), table), np.full(len(table), hides))
    found.end(end)
    return found


class TestWalk:
    def test_finds_what_is_shown_and_what_is_open(self) -> None:
        found = walk(0, 4, record(0), record(1, -1, 0), abort(2), record(3))

        assert (found.shown, found.opened) == ([AbortedSpan(7, 0, 2)], {7: 3})
        assert found.unknown == {}

    def test_leaves_what_is_hidden(self) -> None:
        assert walk(0, 2, record(0), abort(1), hides=True).shown == []

    @pytest.mark.parametrize(
        "batches",
        [
            [record(0), record(2, -1, 0), abort(3)],
            [record(0), abort(3)],
            [record(0), emptied_marker(1, 7), record(2), abort(3)],
        ],
    )
    def test_does_not_know_what_may_have_ended_in_a_gap(self, batches: list[bytes]) -> None:
        assert walk(0, 4, *batches).unknown == {7: [0]}

    def test_does_not_know_several_of_a_producer(self) -> None:
        found = walk(0, 5, record(0), record(2), record(4))

        assert (found.opened, found.unknown) == ({7: 4}, {7: [0, 2]})

    def test_does_not_know_what_ended_at_its_end(self) -> None:
        found = walk(0, 2, record(0))

        assert (found.opened, found.unknown) == ({}, {7: [0]})

    def test_knows_nothing_of_what_came_before(self) -> None:
        found = walk(2, 4, record(0), record(2), abort(3))

        assert (found.shown, found.unknown) == ([AbortedSpan(7, 2, 3)], {})
