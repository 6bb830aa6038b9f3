"""The naive log in lock step for a tenth of SPARKLOG_SOAK_SECONDS, with Spark as one more door."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from sparklog.spark import consume, produce, session
from tests.naive.records import Record
from tests.wire.doors import INSTANCES
from tests.wire.lock_step import PLACES, SHAPES, LockStep, Place, Shape

SECONDS = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600")) / 10
STEPS = 60
ROUND = 5
"""Runs of a state machine, each of STEPS steps, between two looks at the time."""
COLUMNS = "partition int, key binary, value binary, timestamp long"

pytestmark = [pytest.mark.soak, pytest.mark.spark]


class LockStepWithSpark(LockStep):
    """Spark writes and reads batches, too."""

    spark: SparkSession

    @rule(place=PLACES, shape=SHAPES)
    def spark_takes(self, place: Place, shape: Shape) -> None:
        (name, partition), records = place, self.records(shape)
        rows = [(partition, one.key, one.value, one.timestamp) for one in records]
        frame = self.spark.createDataFrame(rows, COLUMNS).coalesce(1)
        answer = produce(frame, str(self.doors.log_dir), name)
        ((_, landed),) = answer.ranges.items()
        assert landed.start == self.logs[place].append(records)

    @rule(place=PLACES)
    def is_read_by_spark(self, place: Place) -> None:
        name, partition = place
        frame = consume(self.spark, str(self.doors.log_dir), subscribe=name)
        wanted = frame.where(f"partition = {partition}").selectExpr(
            "offset", "unix_millis(timestamp) AS time", "key", "value"
        )
        found = sorted(
            Record(row.offset, row.time, _bytes(row.key), _bytes(row.value))
            for row in wanted.collect()
        )
        assert found == self.logs[place].records


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    given: dict[str, Any] = {
        "spark.master": "local[1]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse"),
    }
    found = session("lock step", **given)
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


def test_every_door_answers_as_a_list_of_records_does(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    LockStepWithSpark.spark = spark
    given = settings(
        max_examples=ROUND,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
    )
    end, rounds = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        run_state_machine_as_test(LockStepWithSpark, settings=given)
        rounds += 1
    with capsys.disabled():
        print(f"\n{rounds * ROUND} log dirs, {STEPS} steps each, {INSTANCES} instances: all equal")


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
