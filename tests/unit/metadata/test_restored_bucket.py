"""A bucket that is restored in place: nobody commits behind a hole."""

from collections.abc import Callable
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import CommitOutcomeUnknownError, CorruptMetadataError, MissingFileError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.entries import SEEN_MS
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import RUNS, entry_path
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage.memory import MemoryFiles
from tests.metadata_language import (
    TOPIC,
    Put,
    ToldOtherwise,
    append,
    error_after_success,
    new_log,
)


class TestRestoredBucket:
    """A bucket that is restored in place while a process goes on."""

    @staticmethod
    def followed(files: MemoryFiles, clock: ManualClock) -> MetadataLog:
        """Return a log at version 4, whose bucket then goes back to 1 and goes on from there."""
        log = new_log(files, clock)
        for _ in range(3):
            append(log)
        for version in (2, 3, 4):
            files.delete(entry_path(version))
        MetadataLog(files, clock).begin_incarnation("restored")
        return log

    @pytest.mark.parametrize("answers", [[], [error_after_success]])
    def test_no_commit_lands_in_a_hole(self, answers: list[Any]) -> None:
        """Goal: what is answered is in the log. Method: commit at 5 where the log ends at 2."""
        files, clock = ToldOtherwise(), ManualClock()
        log = self.followed(files, clock)
        clock.advance(SEEN_MS + 1)
        files.answers = list(answers)

        with pytest.raises(CorruptMetadataError, match="was restored or replaced"):
            append(log)
        assert files.stat(entry_path(5)) is None
        assert append(log) == 10
        assert log.image().version == 3

    def test_an_entry_that_others_follow_is_left_to_them(self) -> None:
        files, clock = ToldOtherwise(), ManualClock()
        log = self.followed(files, clock)
        clock.advance(SEEN_MS + 1)

        def followed(put: Put, path: str, data: Any) -> bool:
            return put(path, data) and put(entry_path(6), b"")

        files.answers = [followed]

        with pytest.raises(CorruptMetadataError, match="was restored or replaced"):
            append(log)
        assert files.stat(entry_path(5)) is not None

    def test_what_cannot_be_read_leaves_the_outcome_unknown(self) -> None:
        files, clock = ToldOtherwise(), ManualClock()
        log = new_log(files, clock)
        clock.advance(SEEN_MS + 1)

        def unread(put: Put, path: str, data: Any) -> bool:
            files.fail_next("read")
            return put(path, data)

        files.answers = [unread]

        with pytest.raises(CommitOutcomeUnknownError, match="still there is not known"):
            append(log)

    def test_it_is_asked_for_now_and_then(self) -> None:
        """Goal: a commit costs no request more. Method: count the reads of entries that are."""
        files, clock = MemoryFiles(), ManualClock()
        log = new_log(files, clock)
        clock.advance(SEEN_MS + 1)
        files.trace.clear()
        for _ in range(4):
            append(log)

        reads = [one.path for one in files.trace if one.kind == "read"]
        ahead = [entry_path(version) for version in (2, 3, 4, 5)]
        assert sorted(reads) == [entry_path(1), *ahead]

    @pytest.mark.parametrize("read", [lambda log: log.image(TOPIC), append])
    def test_a_topic_that_is_opened_only_then_is_refused(
        self, read: Callable[[MetadataLog], object]
    ) -> None:
        """The restored log is shorter, so a follower sees no new entry; it lacks the runs."""
        files, clock = MemoryFiles(), ManualClock()
        original = new_log(files, clock)
        append(original)
        fold(original)
        log = MetadataLog(files, clock)
        log.image()
        for stat in files.list(CLUSTER_METADATA, recursive=True):
            if stat.path != entry_path(0):
                files.delete(stat.path)
        MetadataLog(files, clock).begin_incarnation("restored")

        for _ in range(2):
            with pytest.raises(CorruptMetadataError, match="was restored or replaced"):
                read(log)

    @pytest.mark.parametrize("read", [lambda log: log.image(TOPIC), append])
    def test_a_lost_run_of_the_same_log_is_told(
        self, read: Callable[[MetadataLog], object]
    ) -> None:
        files, clock = MemoryFiles(), ManualClock()
        original = new_log(files, clock)
        append(original)
        fold(original)
        log = MetadataLog(files, clock)
        log.image()
        files.delete_tree(f"{CLUSTER_METADATA}/{RUNS}")

        with pytest.raises(MissingFileError, match=f"{RUNS}/"):
            read(log)
