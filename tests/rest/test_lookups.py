"""Lookups are what a naive scan tells, on random logs, at rest and while the log changes."""

from pathlib import Path

import pytest

from tests.rest.conftest import client_for, settings_for
from tests.rest.lookups import PARTITIONS, T0, TIMES, Lookups, random_log

ROUNDS = 12


@pytest.mark.parametrize("seed", [1, 2])
class TestLookups:
    def test_equal_a_scan_for_every_time_and_offset(self, tmp_path: Path, seed: int) -> None:
        log_dir = random_log(tmp_path / "log", seed)
        asked: list[dict[str, int]] = []
        for partition in range(PARTITIONS):
            times = [-1, -2, -3, 0, *range(T0 - 1, T0 + TIMES + 1)]
            asked += [{"partition": partition, "timestamp": when} for when in times]
            asked += [{"partition": partition, "offset": offset} for offset in range(120)]
        with client_for(settings_for(log_dir)) as client:
            lookups = Lookups(log_dir, client, seed)
            answers = [lookups.ask(lookups.batch(asked))]

        assert lookups.wrong(answers) == []

    def test_equal_a_scan_while_the_log_changes(self, tmp_path: Path, seed: int) -> None:
        log_dir = random_log(tmp_path / "log", seed)
        with client_for(settings_for(log_dir)) as client:
            lookups = Lookups(log_dir, client, seed)
            asked = [lookups.ask(q) for _ in lookups.change(ROUNDS) for q in lookups.questions()]

        assert lookups.wrong(asked) == []
        assert len({number for one in asked for number in one.versions}) > 1
