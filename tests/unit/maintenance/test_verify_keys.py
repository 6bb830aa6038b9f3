"""Verify and the key indexes of compacted segments: missing and damaged ones are built again."""

from collections.abc import Callable

import pytest

from sparklog.admin.erase_segment import search
from sparklog.fleet import LocalFleet
from sparklog.log.names import INDEX_SUFFIX
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.verification.verify import verify
from sparklog.record import layout
from tests.compaction import Compacted
from tests.damage import Log
from tests.partitions import DIRECTORY


def compacted() -> Compacted:
    """A compacted segment of two batches, one key each, and a newer record."""
    log = Compacted().put("a=1").put("b=2").put("newest=0")
    log.compacted()
    assert [one.batch_count for one in log.partition.segments] == [2, 1]
    return log


def path(log: Compacted) -> str:
    return f"{DIRECTORY}/{log.partition.segments[0].key_index_path}"


def outcome(log: Compacted, **options: bool) -> Outcome:
    given = {"repair": False, "records": False, **options}
    (_, step) = verify(JobContext(log.catalog, LocalFleet()), [], given)
    return step.execute()


def built(log: Compacted, option: str) -> None:
    options = {"list": False, "check": False, "rebuild": False, option: True}
    (step,) = build_index(JobContext(log.catalog, LocalFleet()), [], options)
    step.execute()


def flip(log: Compacted) -> str:
    log.partition.flip_byte(path(log), -1)
    return "the checksum of its part"


def cut(log: Compacted) -> str:
    log.partition.shrink(path(log), 12)
    return "it has "


def lengthen(log: Compacted) -> str:
    log.partition.put(path(log), log.partition.bytes_of(path(log)) + b"?")
    return "it has "


def remove(log: Compacted) -> str:
    log.partition.remove(path(log))
    return "the file is missing"


class TestDamaged:
    @pytest.mark.parametrize("damage", [flip, cut, lengthen, remove])
    def test_is_named_and_built_again(self, damage: Callable[[Compacted], str]) -> None:
        log = compacted()
        right = log.partition.bytes_of(path(log))
        what = f"{path(log)}: {damage(log)}"
        (problem,) = outcome(log).problems
        mended = outcome(log, repair=True)

        assert problem.startswith(what)
        assert mended.problems == []
        assert log.partition.bytes_of(path(log)) == right
        assert outcome(log).problems == []
        assert log.put("a=5").put("newest=1").compacted().problems == []
        assert log.shown() == "b=2 newest=0 a=5 newest=1"

    @pytest.mark.parametrize("damage", [cut, lengthen, remove])
    @pytest.mark.parametrize("option", ["list", "check", "rebuild"])
    def test_is_built_again_by_the_job(
        self, damage: Callable[[Compacted], str], option: str
    ) -> None:
        log = compacted()
        right = log.partition.bytes_of(path(log))
        damage(log)
        built(log, option)

        assert log.partition.bytes_of(path(log)) == right

    def test_leaves_the_other_indexes_their_files(self) -> None:
        log = compacted()
        before = log.partition.segments[0]
        remove(log)
        built(log, "check")

        new = log.partition.segments[0]
        assert new.key_index_path != before.key_index_path
        assert new == before._replace(key_index_path=new.key_index_path)


class TestSound:
    def test_keeps_its_file_unless_all_are_forced(self) -> None:
        log = Compacted(index_interval_bytes=0).put("a=1").put("b=2").put("newest=0")
        log.compacted()
        kept = path(log)
        log.partition.remove(log.partition.path(INDEX_SUFFIX))
        built(log, "check")
        assert path(log) == kept

        built(log, "rebuild")
        assert path(log) != kept
        assert log.partition.bytes_of(path(log)) == log.partition.bytes_of(kept)


class TestDamagedLog:
    """The first batch of the segment, that of `a`, is damaged."""

    def repaired(self) -> Compacted:
        log = compacted()
        log.partition.flip_byte(log.partition.path(), layout.BATCH_HEADER_SIZE)
        assert outcome(log, repair=True).problems == []
        first = log.partition.segments[0]
        assert (first.batch_count, first.key_index_path) == (1, None)
        return log

    def test_is_replaced_by_a_segment_whose_keys_the_next_compaction_reads(self) -> None:
        log = self.repaired()
        assert log.shown() == "b=2 newest=0"
        log.put("b=5").put("newest=1").compacted()

        assert log.shown() == "newest=0 b=5 newest=1"
        assert outcome(log).problems == []

    def test_is_replaced_by_a_segment_in_which_erase_finds_a_key(self) -> None:
        log = self.repaired()
        entry = log.partition.segments[0]
        found = search(log.partition.files, DIRECTORY, (b"b",), entry)

        assert found.deltas.tolist() == [1]


def test_a_damaged_one_stays_while_its_log_cannot_be_decoded() -> None:
    log = compacted()
    place = log.partition.path()
    data = Log(log.partition.bytes_of(place)).flip_byte(layout.BATCH_HEADER_SIZE).fix_crc()
    log.partition.put(place, bytes(data.data))
    log.partition.with_columns(log.partition.segments[0], log_crc32c=None)
    remove(log)

    undecoded, missing = outcome(log, repair=True).problems
    assert f"{place}, position 0, offset 0: " in undecoded
    assert missing == outcome(log).problems[0]
