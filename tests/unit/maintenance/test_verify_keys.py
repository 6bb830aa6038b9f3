"""Verify and the key indexes of compacted segments: what they must have, the log tells."""

from collections.abc import Callable

import pytest

from sparklog.fleet import LocalFleet
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.verify import verify
from sparklog.record import layout
from tests.compaction import Compacted
from tests.damage import Log
from tests.partitions import DIRECTORY

BIG = "b=" + "x" * 600_000
"""Two such records do not fit into one segment."""


def compacted() -> Compacted:
    """Two compacted segments of two keys each; their key indexes have the same size."""
    log = Compacted(segment_bytes=2**20).put("a=1", BIG).put("c=3", "d=" + BIG).put("newest=0")
    log.compacted()
    assert len([one for one in log.partition.segments if one.key_index_path is not None]) == 2
    return log


def path(log: Compacted, slot: int = 0) -> str:
    return f"{DIRECTORY}/{log.partition.segments[slot].key_index_path}"


def outcome(log: Compacted, **options: bool) -> Outcome:
    given = {"repair": False, "records": False, **options}
    (_, step) = verify(JobContext(log.catalog, LocalFleet()), [], given)
    return step.execute()


def flip(log: Compacted) -> str:
    log.partition.flip_byte(path(log), -1)
    return "the checksum of its part"


def cut(log: Compacted) -> str:
    log.partition.shrink(path(log), 12)
    return "the checksum of its part"


def remove(log: Compacted) -> str:
    log.partition.remove(path(log))
    return "the file is missing"


def exchange(log: Compacted) -> str:
    one, other = path(log, 0), path(log, 1)
    data = log.partition.bytes_of(one)
    log.partition.put(one, log.partition.bytes_of(other)).put(other, data)
    return "its keys are not those of the log"


@pytest.mark.parametrize("damage", [flip, cut, remove, exchange])
class TestDamaged:
    def test_key_indexes_are_named_and_built_again(
        self, damage: Callable[[Compacted], str]
    ) -> None:
        log = compacted()
        right = [log.partition.bytes_of(path(log, slot)) for slot in range(2)]
        what = f"{path(log)}: {damage(log)}"
        (problem, *_) = outcome(log).problems
        mended = outcome(log, repair=True)

        assert problem.startswith(what)
        assert mended.problems == []
        assert [log.partition.bytes_of(path(log, slot)) for slot in range(2)] == right
        assert outcome(log).problems == []
        assert log.put("a=5").put("newest=1").compacted().problems == []
        assert [one.key for one in log.records] == [b"b", b"c", b"d", b"newest", b"a", b"newest"]


class TestBuildIndex:
    @pytest.mark.parametrize("option", ["list", "check", "rebuild"])
    def test_builds_a_key_index_that_is_missing(self, option: str) -> None:
        log = compacted()
        right = log.partition.bytes_of(path(log))
        remove(log)
        options = {"list": False, "check": False, "rebuild": False, option: True}
        (step,) = build_index(JobContext(log.catalog, LocalFleet()), [], options)
        step.execute()

        assert log.partition.bytes_of(path(log)) == right
        assert outcome(log).problems == []


class TestDamagedLog:
    def test_is_replaced_by_a_segment_whose_keys_the_next_compaction_reads(self) -> None:
        log = compacted()
        log.partition.flip_byte(log.partition.path(), 70)
        repaired = outcome(log, repair=True)

        assert repaired.problems == []
        assert "t-0: offsets [0, 2) are lost" in repaired.notes
        assert outcome(log).problems == []


@pytest.mark.parametrize("records", [False, True])
def test_a_record_that_cannot_be_decoded_is_named_once(records: bool) -> None:
    log = compacted()
    place = log.partition.path()
    data = Log(log.partition.bytes_of(place)).flip_byte(layout.BATCH_HEADER_SIZE).fix_crc()
    log.partition.put(place, bytes(data.data))
    log.partition.with_columns(log.partition.segments[0], log_crc32c=None)

    (problem,) = outcome(log, repair=True, records=records).problems
    assert problem.startswith(f"{place}, position 0, offset 0: ")
