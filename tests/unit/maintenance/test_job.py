from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import CorruptMetadataError, UnknownTopicError
from sparklog.maintenance.job import failing_step
from sparklog.maintenance.registry import JOBS
from sparklog.maintenance.runner import executed
from tests.maintenance import context_of, new_topic, run
from tests.opening import fold_now, make_damaged, note_openings
from tests.partitions import Partition


class TestTopics:
    def test_are_all_when_none_is_named(self) -> None:
        assert [topic.name for topic in context_of(Partition()).topics([])] == ["t"]

    def test_are_those_named(self) -> None:
        assert [topic.name for topic in context_of(Partition()).topics(["t"])] == ["t"]

    def test_must_exist(self) -> None:
        with pytest.raises(UnknownTopicError, match="nowhere"):
            context_of(Partition()).topics(["t", "nowhere"])


class TestOpened:
    @pytest.mark.parametrize(
        "name", ["build_index", "merge_segments", "retention", "vacuum", "verify"]
    )
    def test_all_topics_of_a_job_are_opened_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        for topic in "abcd":
            new_topic(tmp_path / "log", topic)
        AdminClient(tmp_path / "log").delete_topics(["d"])
        openings = note_openings(monkeypatch, tmp_path / "log")
        run(JOBS[name].job, tmp_path / "log", dry_run=True, **JOBS[name].options())

        assert openings == [["a", "b", "c"]]

    def test_one_that_cannot_be_opened_fails_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in "ab":
            new_topic(tmp_path / "log", name)
        fold_now(tmp_path / "log")
        context = context_of(tmp_path / "log")
        a, b = context.topics([])
        make_damaged(monkeypatch, "a")

        context.open_together([a, b])
        assert context.image(b).description == b
        with pytest.raises(CorruptMetadataError):
            context.image(a)


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
