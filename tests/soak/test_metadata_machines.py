"""The metadata log's state machines, each for a tenth of SPARKLOG_SOAK_SECONDS."""

import os
import time

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.metadata.test_machine import MetadataMachine, ShortMachine
from tests.unit.metadata.test_machine_of_backups import MachineOfBackups
from tests.unit.metadata.test_machine_of_days import MachineOfDays

SECONDS = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600")) / 10
STEPS = 25
ROUND = 20
"""Runs of a state machine, each of STEPS steps, between two looks at the time."""

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("machine", [ShortMachine, MachineOfDays, MachineOfBackups])
def test_the_log_is_what_the_twin_says(
    machine: type[MetadataMachine], capsys: pytest.CaptureFixture[str]
) -> None:
    given = settings(
        max_examples=ROUND,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=False,  # each round has its own examples
        phases=[Phase.generate, Phase.shrink],
    )
    end, rounds = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        run_state_machine_as_test(machine, settings=given)
        rounds += 1
    with capsys.disabled():
        print(f"\n{machine.__name__}: {rounds * ROUND} log dirs, {STEPS} steps each: all equal")
