"""A task that writes the rows of many topics, as the column `topic` names them."""

import pyarrow as pa

from sparklog.config import TopicConfig
from sparklog.log_writer import WriteOptions, WritePlan
from sparklog.model import TopicDescription
from sparklog.spark.writing.write_task import WriteTask, by_topic
from sparklog.storage.memory import MemoryFiles

TOPICS = [f"t{number}" for number in range(20)]
PLANS = {
    name: WritePlan(
        topic=TopicDescription(name, str(number).rjust(22, "A"), 1, {}, 0),
        config=TopicConfig.parse({}),
        now_ms=0,
        options=WriteOptions(batch_size=1000),
    )
    for number, name in enumerate(TOPICS)
}
"""Topics whose batches have room for ten of the values below, and no more."""


def rows(count: int) -> pa.RecordBatch:
    """Rows of all topics by turns."""
    names = [TOPICS[number % len(TOPICS)] for number in range(count)]
    return pa.RecordBatch.from_pydict(
        {"topic": names, "value": [b"%080d" % n for n in range(count)]}
    )


class TestWriteTask:
    def test_fills_the_batches_of_each_of_many_topics(self) -> None:
        """Goal: many topics make no tiny batches. Method: each batch of Spark has a row of each."""
        task = WriteTask(MemoryFiles(), PLANS, None)
        written = task.write(iter([rows(len(TOPICS))] * 40))

        assert isinstance(written, dict)
        counts = [sum(one.batch_count or 0 for one in part.entries) for part in written.values()]
        assert counts == [4] * len(TOPICS)


class TestByTopic:
    def test_keeps_the_order_of_each_topics_rows(self) -> None:
        found = {name: part.column("value").to_pylist() for name, part in by_topic(rows(60), None)}

        assert found == {
            name: [b"%080d" % number for number in (at, at + 20, at + 40)]
            for at, name in enumerate(TOPICS)
        }

    def test_of_no_rows_is_nothing(self) -> None:
        assert list(by_topic(rows(0), None)) == []

    def test_of_one_topic_is_the_batch_itself(self) -> None:
        batch = rows(1)

        ((name, found),) = by_topic(batch, None)

        assert name == "t0"
        assert found is batch
