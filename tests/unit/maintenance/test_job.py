import pytest

from sparklog.errors import CorruptMetadataError, UnknownTopicError
from sparklog.maintenance.job import failing_step
from sparklog.maintenance.runner import executed
from tests.maintenance import context_of
from tests.partitions import Partition


class TestTopics:
    def test_are_all_when_none_is_named(self) -> None:
        assert [topic.name for topic in context_of(Partition()).topics([])] == ["t"]

    def test_are_those_named(self) -> None:
        assert [topic.name for topic in context_of(Partition()).topics(["t"])] == ["t"]

    def test_must_exist(self) -> None:
        with pytest.raises(UnknownTopicError, match="nowhere"):
            context_of(Partition()).topics(["t", "nowhere"])


class TestContext:
    def test_has_the_files_and_the_clock_of_its_catalog(self) -> None:
        partition = Partition()
        context = context_of(partition)

        assert context.files is partition.files
        assert context.clock is context.catalog.clock


class TestFailingStep:
    def test_says_why_and_fails(self) -> None:
        step = failing_step("t", CorruptMetadataError("cannot be read"))

        assert step.topic == "t"
        assert step.rows == [{"partition": None, "problem": "cannot be read"}]
        assert executed(step).problems == ["cannot be read"]
