"""The writers of the data source without Spark: what Spark calls, in the orders that it may."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklog.admin import AdminClient
from sparklog.config.options import SOURCE_OPTIONS, parse_options
from sparklog.errors import (
    InvalidOptionError,
    InvalidRecordError,
    SparklogWarning,
    TopicClosedError,
    UnexpectedAppendOffsetError,
    UnknownTopicError,
    UsageError,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.codec.entry import Entry
from sparklog.spark.writing import writers
from sparklog.spark.writing.produce_result import ProduceResult
from sparklog.spark.writing.write_job import WriteJob
from sparklog.spark.writing.writers import BatchWriter, StreamWriter, Written
from tests.logs import all_values, catalog, log_files, new_topic, rows, values
from tests.opening import folded, requests_for

COLUMNS = ("value", "partition")


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Topic `t` of four partitions."""
    return new_topic(tmp_path / "log")


def job(log_dir: str, columns: Sequence[str] = COLUMNS, **options: Any) -> WriteJob:
    given = {"topic": "t", "flush": "none", **options}
    given = {name: value for name, value in given.items() if value is not None}
    parsed, _ = parse_options(SOURCE_OPTIONS, given)
    return WriteJob.planned(catalog(log_dir), parsed, columns)


def batch(*values: str, partition: int | None = 0) -> pa.RecordBatch:
    columns = {"more": [1] * len(values), "value": values, "partition": [partition] * len(values)}
    names = pa.schema({"more": pa.int64(), "value": pa.string(), "partition": pa.int32()})
    return pa.RecordBatch.from_pydict(columns, names)


def written(writer: BatchWriter | StreamWriter, *values: str, query: str | None = "q") -> Written:
    """What one task hands back, as a task of the query."""
    return replace(writer.write(iter([batch(*values)])), query_id=query)


def written_to(writer: BatchWriter | StreamWriter, *topics: str) -> Written:
    """What a task of query q hands back that got a record of each of these topics."""
    given = batch(*topics).append_column("topic", pa.array(topics))
    return replace(writer.write(iter([given])), query_id="q")


def entries_since(log_dir: str, version: int) -> list[Entry]:
    """The entries of the metadata log behind a version."""
    log = catalog(log_dir).log
    found = (log.entries.read(one) for one in range(version + 1, log.image().version + 1))
    return [entry for entry in found if entry is not None]


class TestMemory:
    def test_is_bounded_for_all_topics_of_a_task(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each topic alone stays below the limit; together they exceed it."""
        monkeypatch.setattr("sparklog.log_writer.topic_writer.SMALL_BYTES_MAX", 2500)
        for name in ("u", "v"):
            new_topic(log_dir, name)
        counts = {"t": 10, "u": 20, "v": 12}
        table = pa.table({"topic": [one for one, count in counts.items() for _ in range(count)]})
        table = table.append_column("value", pa.array(["x" * 50] * len(table)))
        writer = BatchWriter(job(log_dir, ("value", "topic"), topic=None), ("value", "topic"))
        writer.commit([writer.write(iter(table.to_batches()))])

        assert {path.parts[-3][0] for path in log_files(log_dir)} == {"u"}
        assert {name: len(all_values(log_dir, name)) for name in counts} == counts


class TestPlan:
    def test_of_all_topics_costs_no_more_requests_than_of_one(self) -> None:
        def requests(count: int) -> int:
            files = folded(count)
            parsed, _ = parse_options(SOURCE_OPTIONS, {})
            plan = partial(WriteJob.planned, Catalog(files), parsed, (*COLUMNS, "topic"))
            return requests_for(files, plan)

        assert requests(9) == requests(1)


class TestBatch:
    def test_is_visible_when_it_is_committed(self, log_dir: str) -> None:
        writer = BatchWriter(job(log_dir), COLUMNS)
        messages = [written(writer, "a", "b"), written(writer, "c")]
        assert all_values(log_dir) == []
        writer.commit([*messages])

        assert all_values(log_dir) == ["a", "b", "c"]

    def test_that_is_done_takes_no_rows(self, log_dir: str) -> None:
        writer = BatchWriter(job(log_dir), COLUMNS, is_done=True)

        assert written(writer, "a").segments == {}
        assert log_files(log_dir) == []

    def test_raises_what_a_row_deserves(self, log_dir: str) -> None:
        writer = BatchWriter(job(log_dir), COLUMNS)

        with pytest.raises(UnknownTopicError, match="row 0 names partition 7"):
            writer.write(iter([batch("a", partition=7)]))
        new_topic(log_dir, "compacted", config={"cleanup.policy": "compact"})
        writer = BatchWriter(job(log_dir, topic="compacted"), COLUMNS)
        with pytest.raises(InvalidRecordError, match="every record needs a key"):
            writer.write(iter([batch("a")]))

    def test_says_from_where_a_row_is_counted(self, log_dir: str) -> None:
        """Batches are joined up to some bytes, and those of other topics left out."""
        columns = (*COLUMNS, "topic")
        new_topic(log_dir, "u")
        named, plain = (
            job(log_dir, these, topic=topic, **{"batch.size": 1})
            for these, topic in ((columns, None), (COLUMNS, "t"))
        )
        large, topic = "x" * 200, pa.array(["u", "t", "t"])
        first = batch(large, large, large).append_column("topic", topic)
        second = batch("a", "b", "c", partition=7).append_column("topic", topic)
        third = second.set_column(3, "topic", pa.array(["t", None, "t"]))

        with pytest.raises(UnknownTopicError, match=r"^row 0 .*0 is row 3 of Spark partition 0\)$"):
            BatchWriter(plain, COLUMNS).write(iter([first, second]))
        with pytest.raises(UnknownTopicError, match=r"row 0 .*row 3 .* 0, those of topic 'u' alo"):
            BatchWriter(named, columns).write(iter([first, second]))
        with pytest.raises(InvalidRecordError, match="null topic in row 4 of Spark partition 0"):
            BatchWriter(named, columns).write(iter([first, third]))

    def test_in_many_files_names_repartition(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writers, "FILES_MAX", 1)
        writer = BatchWriter(job(log_dir), COLUMNS)

        with pytest.warns(SparklogWarning, match=r"made 2 segments: with df.repartition"):
            writer.commit([written(writer, "a"), written(writer, "b")])


class TestTopics:
    """Rows of several topics: the column `topic` names them."""

    COLUMNS = ("value", "partition", "topic")

    @pytest.fixture
    def log_dir(self, log_dir: str) -> str:
        """With a topic `u`."""
        return new_topic(log_dir, "u")

    def job(self, log_dir: str, **options: Any) -> WriteJob:
        return job(log_dir, self.COLUMNS, topic=None, **options)

    def commit(self, writing: WriteJob, *topics: str) -> ProduceResult:
        found = written_to(BatchWriter(writing, self.COLUMNS), *topics)
        return writing.commit(writing.catalog(), [(found.task, found.segments)])

    def test_become_visible_in_one_entry(self, log_dir: str) -> None:
        before = catalog(log_dir).image().version
        result = self.commit(self.job(log_dir, txnAppId="app", txnVersion="3"), "u", "t", "u")
        (entry,) = entries_since(log_dir, before)

        assert {str(key): got.end for key, got in result.ranges.items()} == {"t-0": 1, "u-0": 2}
        assert entry.operation == "PRODUCE"
        told = {"topics": "t, u", "records": "3", "txnAppId": "app", "txnVersion": "3"}
        assert told.items() <= entry.parameters.items()

    def test_are_refused_together(self, log_dir: str) -> None:
        writing = self.job(log_dir)
        found = written_to(BatchWriter(writing, self.COLUMNS), "t", "u")
        AdminClient(log_dir).delete_topics(["u"])

        with pytest.raises(TopicClosedError, match="'u'"):
            writing.commit(catalog(log_dir), [(found.task, found.segments)])
        assert rows(log_dir) == {}

    def test_that_all_have_the_write_are_answered_without_rows(self, log_dir: str) -> None:
        once = {"txnAppId": "app", "txnVersion": "1"}
        assert not self.job(log_dir).is_committed(catalog(log_dir))
        first = self.commit(self.job(log_dir, **once), "t")
        assert not self.job(log_dir, **once).is_committed(catalog(log_dir))
        other = self.commit(self.job(log_dir, **once), "u")
        again = self.job(log_dir, **once)

        assert again.is_committed(catalog(log_dir))
        answer = again.replayed(catalog(log_dir))
        assert answer.ranges == {**first.ranges, **other.ranges}
        assert answer.replayed == {"t", "u"}

    def test_that_have_a_part_of_the_write_get_the_rest(self, log_dir: str) -> None:
        once = {"txnAppId": "app", "txnVersion": "1"}
        self.commit(self.job(log_dir, **once), "t")
        both = self.commit(self.job(log_dir, **once), "t", "u")

        assert both.replayed == {"t"}
        assert all_values(log_dir, "t") == ["t"]
        assert all_values(log_dir, "u") == ["u"]


class TestOwnOffsets:
    COLUMNS = ("value", "partition", "offset")

    def written(self, writer: BatchWriter | StreamWriter, *offsets: int | None) -> Written:
        """What a task hands back that has got records of partition 0 with these offsets."""
        rows = batch(*map(str, offsets))
        rows = rows.append_column("offset", pa.array(offsets, pa.int64()))
        return replace(writer.write(iter([rows])), query_id="q")

    def batch_writer(self, log_dir: str) -> BatchWriter:
        return BatchWriter(job(log_dir, self.COLUMNS), self.COLUMNS)

    def stream_writer(self, log_dir: str, **options: Any) -> StreamWriter:
        return StreamWriter(job(log_dir, self.COLUMNS, **options), self.COLUMNS)

    def test_of_tasks_join_whatever_their_order(self, log_dir: str) -> None:
        writer = self.batch_writer(log_dir)
        writer.commit([self.written(writer, 2, 3), self.written(writer, 0, 1)])

        assert values(log_dir) == {0: ["0", "1", "2", "3"]}

    def test_that_are_null_everywhere_are_the_logs(self, log_dir: str) -> None:
        for _ in range(2):
            writer = self.batch_writer(log_dir)
            writer.commit([self.written(writer, None), self.written(writer, None, None)])

        assert len(rows(log_dir)[0]) == 6

    def test_that_are_null_in_one_task_are_refused(self, log_dir: str) -> None:
        writer = self.batch_writer(log_dir)
        messages = [self.written(writer, 0, 1), self.written(writer, None)]

        with pytest.raises(UnexpectedAppendOffsetError, match="topic 't': some records bring"):
            writer.commit([*messages])
        assert rows(log_dir) == {}

    def test_of_a_micro_batch_land_once(self, log_dir: str) -> None:
        for number, offsets in ((0, (0, 1)), (0, (0, 1)), (1, (2, 5)), (1, (2, 5))):
            writer = self.stream_writer(log_dir, allowOffsetGaps="true")
            messages = [self.written(writer, *offsets)]
            self.stream_writer(log_dir, allowOffsetGaps="true").commit([*messages], number)

        assert [row.offset for row in rows(log_dir)[0]] == [0, 1, 2, 5]

    def test_of_another_query_do_not_continue_the_log(self, log_dir: str) -> None:
        writer = self.stream_writer(log_dir)
        message = self.written(writer, 0, 1)
        writer.commit([message], 0)

        with pytest.raises(UnexpectedAppendOffsetError, match="offset 0, expected is 2,"):
            writer.commit([replace(message, query_id="another")], 0)

    def test_are_what_gaps_are_about(self, log_dir: str) -> None:
        with pytest.raises(InvalidOptionError, match="allowOffsetGaps is about the column offset"):
            job(log_dir, allowOffsetGaps="true")


class TestStream:
    def test_commits_a_micro_batch_once(self, log_dir: str) -> None:
        for number in (0, 0, 1, 1):
            writer = StreamWriter(job(log_dir), COLUMNS)
            messages = [written(writer, f"{number}")]
            StreamWriter(job(log_dir), COLUMNS).commit([*messages], number)

        assert all_values(log_dir) == ["0", "1"]

    def test_of_several_topics_is_one_entry_that_names_query_and_batch(self, log_dir: str) -> None:
        new_topic(log_dir, "u")
        columns = (*COLUMNS, "topic")
        writer = StreamWriter(job(log_dir, columns, topic=None), columns)
        message = written_to(writer, "t", "u")
        before = catalog(log_dir).image().version
        writer.commit([message], 7)
        (entry,) = entries_since(log_dir, before)

        assert entry.operation == "STREAM"
        told = {"topics": "t, u", "queryId": "q", "batchId": "7"}
        assert told.items() <= entry.parameters.items()

    def test_tells_queries_apart(self, log_dir: str) -> None:
        for query in ("one", "two"):
            writer = StreamWriter(job(log_dir), COLUMNS)
            writer.commit([written(writer, query, query=query)], 0)

        assert all_values(log_dir) == ["one", "two"]

    def test_deletes_nothing_when_it_is_aborted(self, log_dir: str) -> None:
        """Spark aborts when a commit has raised, and it may have landed all the same."""
        writer = StreamWriter(job(log_dir), COLUMNS)
        messages = [written(writer, "a")]
        writer.commit([*messages], 0)
        writer.abort([*messages, None], 0)

        assert all_values(log_dir) == ["a"]
        assert len(list(Path(log_dir).glob("__shared/*.log"))) == 1

    def test_of_a_checkpoint_that_went_back_is_refused(self, log_dir: str) -> None:
        """In all topics: the records that it would leave out may be new ones."""
        new_topic(log_dir, "u")
        columns = (*COLUMNS, "topic")
        writer = StreamWriter(job(log_dir, columns, topic=None), columns)
        for number in (0, 1):
            writer.commit([written_to(writer, "t")], number)
        with pytest.raises(UsageError, match="'t' has micro-batch 1 of query q already, so micro-"):
            writer.commit([written_to(writer, "t", "u")], 0)
        assert (all_values(log_dir), all_values(log_dir, "u")) == (["t", "t"], [])

    def test_that_has_more_records_when_it_runs_again_keeps_those_of_its_first_run(
        self, log_dir: str
    ) -> None:
        """As when a table that it is joined with has grown meanwhile."""
        writer = StreamWriter(job(log_dir), COLUMNS)
        writer.commit([written(writer, "a")], 0)
        with pytest.warns(SparklogWarning, match="batch 0 of query q already, with 2 records less"):
            writer.commit([written(writer, "a", "b"), written(writer, "c")], 0)

        assert all_values(log_dir) == ["a"]

    @pytest.mark.filterwarnings("error")
    def test_that_has_fewer_records_when_it_runs_again_keeps_those_of_its_first_run(
        self, log_dir: str
    ) -> None:
        """As when its source has lost some."""
        writer = StreamWriter(job(log_dir), COLUMNS)
        writer.commit([written(writer, "a", "b")], 0)
        writer.commit([written(writer, "b")], 0)

        assert all_values(log_dir) == ["a", "b"]

    def test_without_rows_commits_nothing(self, log_dir: str) -> None:
        writer = StreamWriter(job(log_dir), COLUMNS)
        before = catalog(log_dir).image().version
        writer.commit([written(writer), None], 0)
        writer.commit([], 1)

        assert catalog(log_dir).image().version == before

    def test_without_a_query_id_is_refused(self, log_dir: str) -> None:
        writer = StreamWriter(job(log_dir), COLUMNS)

        with pytest.raises(UsageError, match="micro-batch 3 the query's id"):
            writer.commit([written(writer, "a", query=None)], 3)
        assert all_values(log_dir) == []
