"""Readers beside jobs: a plan made before a compaction is read to its end, after vacuum too."""

from collections.abc import Iterator

import pytest

from sparklog.errors import MissingFileError
from sparklog.log_reader.slices import read_slices
from sparklog.maintenance.vacuuming.vacuum import vacuum
from tests.compaction import Compacted
from tests.naive.records import Record, rows
from tests.partitions import DIRECTORY

GRACE_MS = 60_000


def planned(log: Compacted) -> Iterator[Record]:
    """A plan over the whole log, made now and read later."""
    slices = log.partition.reader.slices(0, 0, log.partition.end)
    return (
        one for some in read_slices(log.partition.files, DIRECTORY, slices) for one in rows(some)
    )


@pytest.fixture
def log() -> Compacted:
    """Two segments of the same keys, and a newest one."""
    log = Compacted(sparklog_reader_grace_ms=GRACE_MS, file_delete_delay_ms=0)
    return log.put("a=1", "b=1").put("a=2", "b=2").put("newest=0")


def swept(log: Compacted) -> None:
    for step in vacuum(log.context, ["t"], {}):
        step.execute()


class TestAPlan:
    def test_outlives_a_compaction_and_a_vacuum(self, log: Compacted) -> None:
        before, reader = log.records, planned(log)
        first = next(reader)
        log.compact()
        log.wait(GRACE_MS - 1)
        swept(log)

        assert log.shown() == "a=2 b=2 newest=0"
        assert [first, *reader] == before

    def test_made_while_a_compaction_waits_to_commit_has_the_whole_grace(
        self, log: Compacted
    ) -> None:
        before, readers = log.records, list[Iterator[Record]]()

        def wait_and_plan() -> None:
            log.wait(GRACE_MS)
            readers.append(planned(log))

        log.meanwhile(wait_and_plan).compact()
        log.wait(GRACE_MS - 1)
        swept(log)

        assert log.shown() == "a=2 b=2 newest=0"
        assert list(readers[0]) == before

    def test_that_is_older_than_the_grace_ends_with_an_error(self, log: Compacted) -> None:
        reader = planned(log)
        log.compact()
        log.wait(GRACE_MS + 1)
        swept(log)

        with pytest.raises(MissingFileError):
            list(reader)
        assert log.shown() == "a=2 b=2 newest=0"
