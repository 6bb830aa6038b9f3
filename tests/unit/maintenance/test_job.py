from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import CorruptMetadataError, UnknownTopicError
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext, failing_step
from sparklog.maintenance.registry import JOBS
from sparklog.maintenance.runner import executed
from sparklog.metadata.catalog import Catalog
from tests.logs import append
from tests.maintenance import context_of, new_topic, run
from tests.opening import fold_now, folded, make_damaged, note_openings, requests_for
from tests.partitions import Partition

CONFIGS = {"cleanup.policy": "compact,delete", "sparklog.table.enable": "true"}
"""Configs of a topic that every job works on."""


def requests(name: str, count: int, *, is_named: bool) -> int:
    """How many requests the plan of a job over so many topics needs."""
    files = folded(count, CONFIGS)
    context = JobContext(Catalog(files), LocalFleet())
    names = [f"t{number}" for number in range(count) if is_named]
    job = JOBS[name]
    return requests_for(files, lambda: list(job.job(context, names, job.options())))


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
        "name",
        [
            "build_index",
            "build_table",
            "compact",
            "merge_segments",
            "retention",
            "vacuum",
            "verify",
        ],
    )
    def test_all_topics_of_a_job_are_opened_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        for topic in "abcd":
            new_topic(tmp_path / "log", topic, config=CONFIGS)
        AdminClient(tmp_path / "log").delete_topics(["d"])
        openings = note_openings(monkeypatch, tmp_path / "log")
        run(JOBS[name].job, tmp_path / "log", dry_run=True, **JOBS[name].options())

        assert openings == [["a", "b", "c"]]

    @pytest.mark.parametrize("name", ["build_table", "compact"])
    def test_topics_that_a_job_passes_over_are_not_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        new_topic(tmp_path / "log", "plain")
        openings = note_openings(monkeypatch, tmp_path / "log")
        run(JOBS[name].job, tmp_path / "log", dry_run=True, **JOBS[name].options())

        assert openings == []

    @pytest.mark.parametrize(
        "name", ["build_index", "compact", "merge_segments", "retention", "vacuum"]
    )
    def test_many_topics_cost_no_more_requests_than_one(self, name: str) -> None:
        assert requests(name, 9, is_named=False) == requests(name, 1, is_named=False)

    @pytest.mark.parametrize(
        ("name", "listings"),
        [
            ("build_index", 0),
            ("compact", 0),
            ("merge_segments", 0),
            ("retention", 0),
            ("vacuum", 1),
        ],
    )
    def test_many_names_cost_no_more_than_one_but_for_a_listing_each(
        self, name: str, listings: int
    ) -> None:
        more = requests(name, 9, is_named=True) - requests(name, 1, is_named=True)

        assert more == 8 * listings

    def test_a_plan_is_as_of_the_last_look(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", "t", 1)
        context = context_of(log_dir)
        (topic,) = context.topics([])
        context.open_together([topic])
        append(log_dir, 0, ["a"])

        assert context.to_plan(topic).partition(0).log_end_offset == 0
        assert context.image(topic).partition(0).log_end_offset == 1
        assert context.to_plan(topic).partition(0).log_end_offset == 1

    def test_a_topic_that_is_not_open_is_opened_for_a_plan(self, tmp_path: Path) -> None:
        new_topic(tmp_path / "log", "t", 1)
        fold_now(tmp_path / "log")
        context = context_of(tmp_path / "log")
        (topic,) = context.topics([])

        assert context.to_plan(topic).partition(0).log_end_offset == 0

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
