"""The naive log in lock step, for seconds; `make soak` has it for minutes, with Spark besides."""

from hypothesis import settings

from sparklog.model import Codec
from tests.wire.lock_step import SENDING, LockStep

TestLockStep = LockStep.TestCase
TestLockStep.settings = settings(max_examples=8, stateful_step_count=30, deadline=None)

PLACE = ("kept", 1)
SHAPE = [(0, 0, True), (1, 1, False)]


def test_every_way_of_a_producer_and_all_doors_at_once() -> None:
    """Steps that a few random ones may leave out."""
    machine = LockStep()
    try:
        for number, how in enumerate(("again", *SENDING, "again")):
            machine.an_idempotent_producer_sends(PLACE, (number % 2, 0), SHAPE, how, number)
            machine.a_gateway_takes(PLACE, 0, SHAPE, Codec.ZSTD, 3 + number)
        machine.all_doors_take_at_once(PLACE, [SHAPE] * 4)
    finally:
        machine.teardown()
