"""Histories survive their writers; values tell who wrote them."""

import os
from pathlib import Path

import pytest

from tests.soak.history import Abandoned, Answered, Begun, Event, Journal, Polled, Read, load
from tests.soak.values import DAMAGED, from_bytes, pack, to_bytes, writer_of

EVENTS: list[Event] = [
    Begun(1, 2, [(0, [5, 6]), (3, [])]),
    Answered(1, 2, [(0, 5, 7)], False, 10, 20),
    Answered(1, 1, None, True, 30, 40),
    Polled("tail", 1, 2, [0], [3], 1, 7, [Read(0, 1, 3, [8, 9], [1, 2])], False),
]


class TestJournal:
    def test_gives_back_what_was_noted(self, tmp_path: Path) -> None:
        for event in EVENTS:
            Journal(tmp_path / "a.jsonl").note(event, durably=True)

        assert list(load(tmp_path / "a.jsonl")) == EVENTS
        assert Journal(tmp_path / "a.jsonl").of(Answered) == EVENTS[1:3]

    def test_goes_on_after_a_torn_line(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        Journal(path).note(EVENTS[0])
        whole = path.stat().st_size
        Journal(path).note(EVENTS[1])
        os.truncate(path, whole + 9)
        Journal(path).note(Abandoned(1, 2))

        assert list(load(path)) == [EVENTS[0], Abandoned(1, 2)]

    def test_of_a_process_that_wrote_nothing_is_empty(self, tmp_path: Path) -> None:
        assert list(load(tmp_path / "none.jsonl")) == []


class TestValues:
    @pytest.mark.parametrize("value", [0, 7, pack(3, 12, 40), pack(9, 999_999, 9_999)])
    def test_come_back_from_their_bytes(self, value: int) -> None:
        assert from_bytes(to_bytes(value)) == value

    @pytest.mark.parametrize("data", [None, b"", b":", b"x:1", b"7:", to_bytes(7) + b"a"])
    def test_of_other_bytes_are_damaged(self, data: bytes | None) -> None:
        assert from_bytes(data) == DAMAGED

    def test_tell_their_write(self) -> None:
        assert writer_of(pack(3, 12, 40)) == (3, 12)
