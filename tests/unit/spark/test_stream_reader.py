"""A stream as Spark drives it, without Spark: latestOffset, partitions, read, and restarts."""

import json
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
)

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import LogDirError, OffsetOutOfRangeError, SparklogWarning, UnknownTopicError
from sparklog.metadata.upkeep.restore import restore
from tests.logs import append, catalog, new_topic
from tests.streams import T0, Json, Stream, span, two_partitions

MINUTE = 60_000


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return two_partitions(tmp_path / "log")


class TestBatches:
    def test_have_what_is_new(self, log_dir: str) -> None:
        stream = Stream(log_dir)

        assert stream.step() == {"t-0": span(0, 10), "t-1": span(0, 10)}
        assert stream.step() is None
        append(log_dir, 1, range(5))
        assert stream.step() == {"t-1": span(10, 15)}
        assert stream.step() is None

    def test_begin_at_the_end_without_a_word_about_it(self, log_dir: str) -> None:
        stream = Stream(log_dir, startingOffsets=None)

        assert stream.step() == {}
        append(log_dir, 0, range(2))
        assert stream.step() == {"t-0": span(10, 12)}

    @pytest.mark.parametrize(
        ("options", "first"),
        [
            ({"startingOffsets": '{"t": {"0": 4}}'}, {"t-0": span(4, 10)}),
            ({"startingOffsets": '{"t": {"0": -2, "1": -1}}'}, {"t-0": span(0, 10)}),
            ({"startingTimestamp": T0 + 8}, {"t-0": [8, 9], "t-1": [8, 9]}),
            ({"startingOffsetsByTimestamp": json.dumps({"t": {"1": T0 + 9}})}, {"t-1": [9]}),
            ({"subscribe": None, "assign": '{"t": [1]}'}, {"t-1": span(0, 10)}),
        ],
    )
    def test_begin_where_options_say(
        self, log_dir: str, options: Json, first: dict[str, list[int]]
    ) -> None:
        assert Stream(log_dir, **options).step() == first

    def test_are_cut_for_parallelism(self, log_dir: str) -> None:
        stream = Stream(log_dir, maxRecordsPerPartition=4)
        end = json.loads(stream.plan())

        assert len(stream.reader.partitions(stream.start, end)) == 6

    def test_show_the_lag(self, log_dir: str) -> None:
        stream = Stream(log_dir, maxOffsetsPerTrigger=4)
        assert stream.reader.reportLatestOffset() is None
        stream.step()

        assert stream.reader.reportLatestOffset() == {"t": {"0": 10, "1": 10}}
        assert stream.at is not None
        assert json.loads(stream.at)["t"] == {"0": 2, "1": 2}


class TestLimits:
    def test_of_records_are_kept(self, log_dir: str) -> None:
        stream = Stream(log_dir, maxOffsetsPerTrigger=8)

        assert stream.step() == {"t-0": span(0, 4), "t-1": span(0, 4)}
        assert stream.step() == {"t-0": span(4, 8), "t-1": span(4, 8)}
        assert stream.step() == {"t-0": [8, 9], "t-1": [8, 9]}
        assert stream.step() is None

    def test_are_what_spark_is_told(self, log_dir: str) -> None:
        def told(**options: int) -> ReadLimit:
            return Stream(log_dir, **options).reader.getDefaultReadLimit()

        assert told() == ReadAllAvailable()
        assert told(maxOffsetsPerTrigger=8) == ReadMaxRows(8)
        assert told(minOffsetsPerTrigger=3) == ReadMinRows(3)
        assert told(minOffsetsPerTrigger=3, maxOffsetsPerTrigger=8) == ReadMaxRows(8)

    def test_do_not_hold_for_trigger_once(self, log_dir: str) -> None:
        stream = Stream(log_dir, maxOffsetsPerTrigger=8)

        assert stream.step(ReadAllAvailable()) == {"t-0": span(0, 10), "t-1": span(0, 10)}

    def test_make_small_batches_wait_but_never_the_first(self, log_dir: str) -> None:
        clock = ManualClock()
        stream = Stream(log_dir, clock, minOffsetsPerTrigger=6, maxTriggerDelay="2m")
        assert stream.step() == {"t-0": span(0, 10), "t-1": span(0, 10)}
        append(log_dir, 0, range(5))

        assert stream.step() is None
        append(log_dir, 1, range(1))
        assert stream.step() == {"t-0": span(10, 15), "t-1": [10]}
        append(log_dir, 0, range(1))
        clock.advance(2 * MINUTE - 1)
        assert stream.step() is None
        clock.advance(1)
        assert stream.step() == {"t-0": [15]}

    def test_of_both_kinds_go_together(self, log_dir: str) -> None:
        stream = Stream(log_dir, ManualClock(), minOffsetsPerTrigger=6, maxOffsetsPerTrigger=8)

        assert [stream.step() is not None for _ in range(4)] == [True, True, False, False]


class TestAvailableNow:
    def test_ends_at_what_is_there_when_it_first_looks(self, log_dir: str) -> None:
        stream = Stream(log_dir, maxOffsetsPerTrigger=16)
        stream.reader.prepareForTriggerAvailableNow()
        append(log_dir, 0, range(2))

        assert stream.step() == {"t-0": span(0, 8), "t-1": span(0, 7)}
        append(log_dir, 0, range(50))
        assert stream.step() == {"t-0": span(8, 12), "t-1": span(7, 10)}
        assert stream.step() is None

    def test_waits_for_nothing(self, log_dir: str) -> None:
        stream = Stream(log_dir, minOffsetsPerTrigger=1000)
        stream.step()
        append(log_dir, 0, range(1))
        stream.reader.prepareForTriggerAvailableNow()

        assert stream.step() == {"t-0": [10]}

    def test_fails_without_its_topic_or_ends_with_a_warning(self, log_dir: str) -> None:
        """The connector fails in both cases. The next run reads the topic that was made again."""
        streams = [
            Stream(log_dir, maxOffsetsPerTrigger=8, failOnDataLoss=one) for one in (True, False)
        ]
        failing, going_on = streams
        for stream in streams:
            stream.reader.prepareForTriggerAvailableNow()
            stream.step()
        AdminClient(log_dir).delete_topics(["t"])
        new_topic(log_dir, partitions=2)
        append(log_dir, 0, range(3))

        with pytest.raises(UnknownTopicError, match="was deleted after the read was planned"):
            failing.step()
        with pytest.warns(SparklogWarning, match="was deleted after the read was planned"):
            assert [going_on.step() for _ in range(3)] == [{}, {}, None]
        with pytest.warns(SparklogWarning, match="was deleted and created again"):
            assert going_on.restart().step() == {"t-0": [0, 1, 2]}

    def test_runs_a_batch_again_though_there_are_more_partitions_now(self, log_dir: str) -> None:
        """The connector's own test of SPARK-53560."""
        stream = Stream(log_dir)
        stream.reader.prepareForTriggerAvailableNow()
        end = stream.plan()
        AdminClient(log_dir).create_partitions({"t": 3})
        append(log_dir, 2, range(3))
        stream.restart().reader.prepareForTriggerAvailableNow()

        assert stream.run(end) == {"t-0": span(0, 10), "t-1": span(0, 10)}
        stream.at = end
        assert stream.step() == {"t-2": [0, 1, 2]}


class TestRestart:
    def test_goes_on(self, log_dir: str) -> None:
        stream = Stream(log_dir, maxOffsetsPerTrigger=8)
        stream.step()

        assert stream.restart().step() == {"t-0": span(4, 8), "t-1": span(4, 8)}

    def test_runs_a_batch_again_that_was_not_finished(self, log_dir: str) -> None:
        stream = Stream(log_dir)
        stream.step()
        append(log_dir, 0, range(5))
        end = stream.plan()
        append(log_dir, 0, range(5))

        assert stream.restart().run(end) == {"t-0": span(10, 15)}

    def test_runs_the_very_first_batch_again_from_where_it_began(self, log_dir: str) -> None:
        """Started from `latest`, and the log has grown meanwhile."""
        stream = Stream(log_dir, startingOffsets="latest")
        assert stream.start == {"t": {"0": 10, "1": 10}}
        append(log_dir, 0, range(2))
        end = stream.plan()
        append(log_dir, 0, range(7))

        assert stream.restart().start == {"t": {"0": 19, "1": 10}}
        assert stream.run(end) == {"t-0": [10, 11]}

    def test_knows_where_it_began_even_if_nothing_was_there(self, log_dir: str) -> None:
        stream = Stream(log_dir, startingOffsets="latest")
        assert stream.step() == {}
        append(log_dir, 0, range(2))

        assert stream.restart().step() == {"t-0": [10, 11]}

    @pytest.mark.parametrize(
        ("now", "told"),
        [
            ({"subscribe": "t,tt"}, "unknown topic 'tt'"),
            ({"subscribe": None, "assign": '{"t": [0, 1, 7]}'}, "'t' has no partition 7"),
            ({"subscribe": None, "assign": '{"t": [0, 1], "u": [0]}'}, "unknown topic 'u'"),
        ],
    )
    def test_does_not_wait_for_what_does_not_exist(
        self, log_dir: str, now: Json, told: str
    ) -> None:
        stream = Stream(log_dir)
        stream.step()
        stream.options |= now

        with pytest.raises(UnknownTopicError, match=told):
            stream.restart().step()
        stream.options["failOnDataLoss"] = False
        with pytest.warns(SparklogWarning, match=told):
            assert stream.restart().step() is None


class TestPartitions:
    def test_that_are_added_are_read_from_their_beginning(self, log_dir: str) -> None:
        stream = Stream(log_dir, startingOffsets="latest")
        stream.step()
        AdminClient(log_dir).create_partitions({"t": 3})
        append(log_dir, 2, range(3))

        assert stream.step() == {"t-2": [0, 1, 2]}

    def test_of_a_topic_that_appears_too(self, log_dir: str) -> None:
        stream = Stream(log_dir, subscribe=None, subscribePattern="t|u")
        stream.step()
        new_topic(log_dir, "u", 1)
        append(log_dir, 0, range(3), topic="u")

        assert stream.step() == {"u-0": [0, 1, 2]}
        assert stream.restart().step() is None

    def test_that_have_lost_their_beginning_are_data_loss(self, log_dir: str) -> None:
        stream = Stream(log_dir)
        stream.step()
        AdminClient(log_dir).create_partitions({"t": 3})
        append(log_dir, 2, range(9))
        AdminClient(log_dir).delete_records({("t", 2): 4})

        with pytest.raises(OffsetOutOfRangeError, match=r"t-2: offsets \[0, 9\) are not all in"):
            stream.step()
        stream.options["failOnDataLoss"] = False
        with pytest.warns(SparklogWarning, match="reading what there is"):
            assert stream.restart().step() == {"t-2": span(4, 9)}

    def test_that_have_lost_their_beginning_count_from_the_log_start(self, log_dir: str) -> None:
        """Else micro-batch after micro-batch takes its share of what the log has lost."""
        stream = Stream(log_dir, maxOffsetsPerTrigger=100, failOnDataLoss=False)
        stream.step()
        AdminClient(log_dir).create_partitions({"t": 3})
        append(log_dir, 2, range(500))
        AdminClient(log_dir).delete_records({("t", 2): 450})

        with pytest.warns(SparklogWarning, match="reading what there is"):
            assert stream.step() == {"t-2": span(450, 500)}


class TestTopic:
    @pytest.fixture
    def stream(self, log_dir: str) -> Stream:
        """One that has read all, of a pattern."""
        stream = Stream(log_dir, subscribe=None, subscribePattern="t|u")
        stream.step()
        return stream

    def test_that_is_deleted_is_data_loss(self, stream: Stream) -> None:
        AdminClient(stream.log_dir).delete_topics(["t"])

        with pytest.raises(UnknownTopicError, match="'t'.* of the stream names, does not exist"):
            stream.step()
        with pytest.raises(UnknownTopicError):
            stream.restart().step()

    def test_that_is_deleted_may_be_forgotten(self, stream: Stream) -> None:
        AdminClient(stream.log_dir).delete_topics(["t"])
        stream.options["failOnDataLoss"] = False
        with pytest.warns(SparklogWarning, match="does not exist any more"):
            assert stream.restart().step() == {}

        assert stream.step() is None

    def test_that_is_created_again_is_another(self, stream: Stream) -> None:
        """Its offsets alone would look as if nothing had happened."""
        AdminClient(stream.log_dir).delete_topics(["t"])
        new_topic(stream.log_dir, partitions=2)
        append(stream.log_dir, 0, range(12))

        with pytest.raises(UnknownTopicError, match="was deleted and created again"):
            stream.step()
        stream.options["failOnDataLoss"] = False
        with pytest.warns(SparklogWarning, match="was deleted and created again"):
            assert stream.restart().step() == {"t-0": span(0, 12)}

    def test_in_a_restored_log_dir_has_its_offsets_a_second_time(self, stream: Stream) -> None:
        """The log end is further than the checkpoint, with other records up to there."""
        append(stream.log_dir, 0, range(12))
        stream.step()
        restore(catalog(stream.log_dir).files, SystemClock())

        with pytest.raises(LogDirError, match="it was restored or replaced"):
            stream.restart().step()
        stream.options["failOnDataLoss"] = False
        with pytest.warns(SparklogWarning, match="it was restored or replaced"):
            assert stream.restart().step() == {}
        assert stream.restart().step() is None

    def test_that_is_deleted_between_plan_and_run_is_data_loss(self, stream: Stream) -> None:
        append(stream.log_dir, 0, range(3))
        end = stream.plan()
        AdminClient(stream.log_dir).delete_topics(["t"])

        with pytest.raises(UnknownTopicError, match="was deleted after the read was planned"):
            stream.run(end)
        stream.options["failOnDataLoss"] = False
        with pytest.warns(SparklogWarning, match="was deleted after the read was planned"):
            assert stream.restart().run(end) == {}

    @pytest.mark.parametrize(
        "now",
        [{"subscribePattern": "u"}, {"subscribePattern": None, "assign": '{"t": [0]}'}],
    )
    def test_or_partition_that_is_not_selected_any_more_is_data_loss(
        self, stream: Stream, now: Json
    ) -> None:
        stream.options |= now

        with pytest.raises(UnknownTopicError, match="is not selected any more"):
            stream.restart().step()


class TestStart:
    @pytest.mark.parametrize("offset", [11, 2**62])
    def test_beyond_the_log_is_an_error(self, log_dir: str, offset: int) -> None:
        starting = json.dumps({"t": {"0": offset}})

        with pytest.raises(OffsetOutOfRangeError, match=rf"t-0: offsets \[{offset}"):
            Stream(log_dir, startingOffsets=starting).step()
        stream = Stream(log_dir, startingOffsets=starting, failOnDataLoss=False)
        with pytest.warns(SparklogWarning, match="reading what there is"):
            assert stream.start["t"]["0"] == 10

    def test_after_the_last_time_is_as_the_strategy_says(self, log_dir: str) -> None:
        with pytest.raises(OffsetOutOfRangeError, match="no record at or after"):
            Stream(log_dir, startingTimestamp=T0 + 99).step()
        latest = {"startingOffsetsByTimestampStrategy": "latest"}
        assert Stream(log_dir, startingTimestamp=T0 + 99, **latest).step() == {}
