"""Verify and a `.log` that is the file of another segment: none of its batches is taken."""

import pytest

from sparklog.record.checksum import crc32c
from tests.partitions import DIRECTORY, NOW_MS, Partition, batch
from tests.verifying import check, repair


def three(*, sizes: tuple[int, int, int] = (3, 3, 3), sealed: bool = False) -> Partition:
    """Three segments of two records each; unsealed ones all count their offsets from 0."""
    partition = Partition()
    for n, size in enumerate(sizes):
        partition.append(batch(n, n + 1, size=size), sealed=sealed)
    for slot, entry in enumerate(partition.segments):
        checksum = crc32c(partition.bytes_of(partition.path(slot=slot)))
        partition.with_columns(entry, log_crc32c=checksum)
    return partition


def lay(partition: Partition, source: int, target: int) -> bytes:
    """Put the file of one segment over that of another; return what was there."""
    place = partition.path(slot=target)
    before = partition.bytes_of(place)
    partition.put(place, partition.bytes_of(partition.path(slot=source)))
    return before


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 5, 3), (5, 3, 3)])
class TestAnothersFile:
    def test_gives_no_batch(self, sizes: tuple[int, int, int], sealed: bool) -> None:
        partition = three(sizes=sizes, sealed=sealed)
        first, second, third = partition.segments
        lay(partition, 0, 1)
        told = f"{DIRECTORY}/{second.log_path}: it is the file of {DIRECTORY}/{first.log_path}"
        assert told in check(partition).problems
        repaired = repair(partition)

        assert repaired.problems == []
        assert [note for note in repaired.notes if "are lost" in note or "it is" in note] == [
            f"t-0: {told}",
            "t-0: offsets [2, 4) are lost",
        ]
        assert partition.segments == [first, third]
        assert [one.offset for one in partition.read()] == [0, 1, 4, 5]
        aside = partition.bytes_of(f"{DIRECTORY}/quarantine/{second.log_path}")
        assert aside == partition.bytes_of(partition.path(slot=0))

    def test_is_named_in_both_places_after_an_exchange(
        self, sizes: tuple[int, int, int], sealed: bool
    ) -> None:
        partition = three(sizes=sizes, sealed=sealed)
        one, other, _ = (entry.log_path for entry in partition.segments)
        partition.put(partition.path(slot=0), lay(partition, 0, 1))
        named = [problem for problem in check(partition).problems if "it is the file" in problem]

        assert named == [
            f"{DIRECTORY}/{one}: it is the file of {DIRECTORY}/{other}",
            f"{DIRECTORY}/{other}: it is the file of {DIRECTORY}/{one}",
        ]


class TestNotKnown:
    def test_is_a_file_whose_row_has_no_checksum(self) -> None:
        partition = three()
        first, second, _ = partition.segments
        partition.with_columns(first, log_crc32c=None)
        lay(partition, 0, 1)

        assert not any("it is the file" in problem for problem in check(partition).problems)
        assert repair(partition).problems == []
        assert [one.log_path == second.log_path for one in partition.segments] == [False] * 3

    def test_is_a_file_of_a_segment_that_was_removed(self) -> None:
        partition = three()
        first = partition.segments[0]
        lay(partition, 0, 1)
        partition.commit(remove=[first.key], removed_ms=NOW_MS)

        assert not any("it is the file" in problem for problem in check(partition).problems)
