"""Commits: a batch fails apart; time, long edits, openers and followers."""

from itertools import chain, repeat
from pathlib import Path
from threading import Barrier, Thread
from typing import Any
from unittest.mock import DEFAULT, MagicMock, Mock

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    MissingFileError,
    StorageError,
    UsageError,
)
from sparklog.metadata.codec.entry import EDITS_BYTES_MAX
from sparklog.metadata.log import Committed, MetadataLog, Plan
from sparklog.metadata.names import ENTRIES, HINT, entry_path
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.housekeeping import keep_house
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.edits import segment
from tests.metadata_language import (
    TOPIC,
    Put,
    ToldOtherwise,
    append,
    ends,
    new_log,
    producing,
    topic_id,
    whole,
)
from tests.naive.metadata import said_by
from tests.waiting import until


class TestBatches:
    """The requests that wait in one process share one entry."""

    @staticmethod
    def together(log: MetadataLog, *plans: Plan, topic: str = TOPIC[0]) -> list[Any]:
        """Commit in a thread each, all in one batch; return answers and errors.

        The first plan reads `topic`, the others the first topic.
        """
        answers: list[Any] = [None] * len(plans)

        def commit(at: int, plan: Plan) -> None:
            try:
                answers[at] = log.commit(plan, TOPIC if at else [topic])
            except BaseException as error:  # noqa: BLE001 - the thread's outcome
                answers[at] = error

        threads = [Thread(target=commit, args=(at, plan)) for at, plan in enumerate(plans)]
        with log._committing:
            for thread in threads:
                thread.start()
            until(lambda: len(log._queue) == len(plans))
        for thread in threads:
            thread.join()
        return answers

    def test_plans_run_on_what_those_before_leave(self) -> None:
        log = new_log()
        answers = self.together(log, *[producing(segment()) for _ in range(5)])

        assert sorted(ends(one.image) for one in answers) == [10, 20, 30, 40, 50]
        assert log.image().version == 2

    @pytest.mark.parametrize(
        "edit",
        [
            lambda _: 1 / 0,
            lambda _: Edit(operation="X", forget_topics=5),  # type: ignore[arg-type] # wrong on purpose
            lambda _: Edit(operation="X", parameters={"a": 5}, level=1),  # type: ignore[dict-item] # wrong on purpose
            lambda _: Edit(operation="X", horizon_ms=5.5),  # type: ignore[arg-type] # wrong on purpose
        ],
    )
    def test_one_that_fails_fails_alone(self, edit: Plan) -> None:
        log = new_log()
        bad, *good = self.together(log, edit, producing(segment()), producing(segment()))

        assert isinstance(bad, Exception)
        assert sorted(ends(one.image) for one in good) == [10, 20]

    def test_damage_of_a_topic_is_told_to_those_who_ask_for_it(self) -> None:
        log = new_log(topics=2)
        fold(log)
        fresh = MetadataLog(log.files, log.clock)
        opened = fresh.runs.opened

        def damaged(fold: Any, topics: Any) -> Any:
            if topic_id(1) in topics:
                raise CorruptMetadataError("_runs/x is damaged")
            return opened(fold, topics)

        fresh.runs.opened = damaged  # type: ignore[method-assign] # wrong on purpose
        edit = Edit(operation="X", horizon_ms=5)
        answers = self.together(fresh, lambda _: Done(), lambda _: edit, topic=topic_id(1))

        assert [type(one) for one in answers] == [CorruptMetadataError, Committed]

    def test_an_interrupted_leader_leaves_the_others_to_go_on(self) -> None:
        log = new_log()
        once = chain([KeyboardInterrupt], repeat(DEFAULT))
        interrupting = Mock(wraps=producing(segment()), side_effect=once)

        answers = self.together(log, interrupting, *[producing(segment())] * 2)
        interrupted = [one for one in answers if isinstance(one, KeyboardInterrupt)]
        ended = sorted(ends(one.image) for one in answers if one not in interrupted)

        assert len(interrupted) == 1
        assert ended == [10, 20]

    def test_an_interruption_in_a_put_is_unknown_to_the_others(self) -> None:
        files = ToldOtherwise()
        log = new_log(files)

        def interrupted(put: Put, path: str, data: Any) -> bool:
            raise KeyboardInterrupt

        files.answers = [interrupted]
        answers = self.together(log, producing(segment()), producing(segment()))

        assert {type(one) for one in answers} == {KeyboardInterrupt, CommitOutcomeUnknownError}
        assert append(log) == 10

    def test_an_interruption_behind_a_put_commits_nothing_again(self) -> None:
        files = ToldOtherwise()
        log = new_log(files)
        reading = MagicMock(wraps=log._reading)

        def landed(put: Put, path: str, data: Any) -> bool:
            reading.__enter__.side_effect = chain([KeyboardInterrupt], repeat(None))
            log._reading = reading
            return put(path, data)

        files.answers = [landed]
        answers = self.together(log, producing(segment()), producing(segment()))

        assert {type(one) for one in answers} == {KeyboardInterrupt, Committed}
        assert (log.image().version, append(log)) == (2, 30)

    def test_several_of_an_interrupted_thread_are_not_left_to_others(self) -> None:
        log = new_log()
        interrupting = Mock(side_effect=chain([KeyboardInterrupt], repeat(Done())))

        with pytest.raises(KeyboardInterrupt):
            log.commit_each([producing(segment()), interrupting, producing(segment())], TOPIC)
        assert append(log) == 10

    def test_threads_get_offsets_without_a_hole(self) -> None:
        log, start = new_log(), Barrier(4)
        got: list[int] = []

        def commit_often() -> None:
            start.wait()
            got.extend(append(log) for _ in range(25))

        threads = [Thread(target=commit_often) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(got) == list(range(10, 1010, 10))


class TestTime:
    def test_goes_on_while_the_clock_is_behind(self) -> None:
        clock = ManualClock()
        log = new_log(clock=clock)
        before = log.image().stamp.timestamp_ms
        clock.set_wall(before - 1_000_000)
        append(log)
        append(log)

        assert log.image().stamp.timestamp_ms == before + 2

    def test_deadlines_do_not_follow_the_wall_clock(self) -> None:
        files, clock = ToldOtherwise(), ManualClock()
        log = new_log(files, clock)

        def jump(put: Put, path: str, data: Any) -> bool:
            clock.set_wall(clock.now_ms() + 10**10)
            raise StorageError("no connection")

        files.answers = [jump, jump]

        assert append(log) == 10


class TestEditsFile:
    def test_a_long_edit_is_read_by_others(self) -> None:
        log = new_log()
        entries = [segment(records=1) for _ in range(EDITS_BYTES_MAX // 100)]
        log.commit(producing(*entries), TOPIC)
        other = MetadataLog(log.files, log.clock)

        assert len(list(log.files.list("__cluster_metadata/_edits"))) == 1
        assert said_by(whole(other)) == said_by(whole(log))

    def test_its_size_counts_for_the_next_fold(self) -> None:
        """Goal: a committer counts what a follower counts. Method: compare both after one file."""
        log = new_log()
        entries = [segment(records=1) for _ in range(EDITS_BYTES_MAX // 100)]
        log.commit(producing(*entries), TOPIC)
        other = MetadataLog(log.files, log.clock)
        other.image()

        assert other.bytes_behind == log.bytes_behind > EDITS_BYTES_MAX


class TestOpen:
    @pytest.mark.parametrize("hint", [b"", b"[]", b'{"version":"x"}', b'{"version":-7}', None])
    def test_does_without_its_hint(self, hint: bytes | None) -> None:
        log = new_log()
        append(log)
        fold(log)
        append(log)
        if hint is None:
            log.files.delete(HINT)
        else:
            log.files.overwrite(HINT, hint)

        assert said_by(whole(MetadataLog(log.files, log.clock))) == said_by(whole(log))

    def test_a_hint_that_leads_astray_is_passed_over(self) -> None:
        log = new_log()
        log.files.overwrite(HINT, b'{"version":1}')

        assert said_by(whole(MetadataLog(log.files, log.clock))) == said_by(whole(log))

    def test_nothing_is_read_before_it_is_asked_for(self) -> None:
        with pytest.raises(MissingFileError, match="not read yet"):
            _ = MetadataLog(MemoryFiles(), ManualClock()).last_image

    def test_a_directory_without_a_log_is_told(self) -> None:
        with pytest.raises(MissingFileError, match="no metadata log here"):
            MetadataLog(MemoryFiles(), ManualClock()).image()


class TestFollow:
    def test_foreign_entries_are_passed_over(self) -> None:
        log = new_log()
        log.files.put_new(entry_path(2), b'{"commitInfo":{"operation":"VACUUM START"}}')

        assert append(log) == 10
        assert log.image().version == 3
        assert ends(whole(MetadataLog(log.files, log.clock))) == 10

    def test_nobody_lists_to_commit_or_to_follow(self) -> None:
        files = MemoryFiles()
        log, other = new_log(files), MetadataLog(files, ManualClock())
        other.image()
        files.trace.clear()
        append(log)
        other.image()

        assert {one.kind for one in files.trace} <= {"put_new", "read", "sync_directory"}
        assert not [one for one in files.trace if one.path == ENTRIES and one.kind == "list"]

    def test_current_is_known_without_reading(self, tmp_path: Path) -> None:
        files = LocalFiles(str(tmp_path))
        log, other = new_log(files), MetadataLog(files, ManualClock())
        known = other.current(), other.image().version, other.current()
        append(log)

        assert known == (None, 1, other.last_image)
        assert other.current() is None
        assert new_log().current() is None

    def test_a_closed_topic_is_refused_by_name(self) -> None:
        log = new_log()
        fold(log)

        with pytest.raises(UsageError, match="is not opened"):
            MetadataLog(log.files, log.clock).commit(producing(segment()))


def test_housekeeping_is_called_after_an_answer() -> None:
    files: Files = new_log().files
    called: list[int] = []
    log = MetadataLog(
        files, ManualClock(), after_commit=lambda log: called.append(log.last_image.version)
    )
    append(log)
    append(log, housekeeping=False)
    log.commit(lambda _: Done())

    assert called == [2]


def test_housekeeping_that_fails_fails_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    """Goal: what landed is answered. Method: another thread drops the image before housekeeping."""

    def dropped(log: MetadataLog) -> None:
        log._forget()
        keep_house(log)

    log = MetadataLog(new_log().files, ManualClock(), after_commit=dropped)

    assert append(log) == 10
    assert "not read yet" in caplog.text
