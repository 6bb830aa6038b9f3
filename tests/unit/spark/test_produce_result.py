"""What a produce prints of its answer."""

from sparklog.model import OffsetRange, TopicPartition
from sparklog.spark.writing.produce_result import ProduceResult


class TestText:
    def test_has_a_line_for_each_partition(self) -> None:
        ranges = {
            TopicPartition("t", 10): OffsetRange(10, 0, 3),
            TopicPartition("t", 9): OffsetRange(9, 5, 7),
        }
        assert str(ProduceResult(ranges)) == "t-9: offsets [5, 7)\nt-10: offsets [0, 3)"

    def test_names_topics_that_had_the_write(self) -> None:
        ranges = {TopicPartition("t", 0): OffsetRange(0, 5, 7)}
        found = str(ProduceResult(ranges, frozenset(["u", "t"]), frozenset(["u"])))
        assert found == "t-0: offsets [5, 7)\nt: written before\nu: written before"

    def test_of_nothing(self) -> None:
        assert str(ProduceResult({})) == "no records"
