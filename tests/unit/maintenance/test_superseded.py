"""Keys of a partition: read, cut into buckets, compared; also where hashes meet."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparklog.log_reader import key_hashes
from sparklog.maintenance.compaction import superseded
from sparklog.maintenance.compaction.superseded import (
    BUCKET_RECORDS,
    Buckets,
    Chunk,
    KeyRows,
    KeySource,
    Unreadable,
    bucket_bits,
    bucket_of,
    index_keys,
    key_records,
    mark,
)
from sparklog.record.decode import DecodedRecords
from sparklog.record.kernels.key_hash import hash_rows
from tests.compaction import LARGE, MANY_ROUNDS, Compacted, Rounds, check_rounds, rounds
from tests.partitions import DIRECTORY, marker

EVERYTHING_MEETS, TWO_HASHES, FOUR_HASHES = 0, -(2**63), 0x0101 << 48


@contextmanager
def limits(**values: object) -> Iterator[None]:
    """Let the module have other limits."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(superseded, name, value)
        yield


@contextmanager
def meeting(mask: int) -> Iterator[None]:
    """Let keys have hashes of which only some bits differ."""

    def hash_some(ends: NDArray[np.int32], data: NDArray[np.uint8], out: NDArray[np.int64]) -> None:
        hash_rows(ends, data, out)
        out &= mask

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_hashes, "hash_rows", hash_some)
        yield


def source(log: Compacted, first: int = 0, bits: int = 0) -> KeySource:
    """The only segment; its keys go to the reducers from `first` on."""
    return KeySource(
        files=log.partition.files,
        directory=DIRECTORY,
        entry=log.partition.segments[0],
        first=first,
        segment=4,
        bits=bits,
    )


def chunks(log: Compacted, first: int = 0, bits: int = 0) -> list[tuple[int, Chunk]]:
    found = list(index_keys(source(log, first, bits)))
    return [(number, chunk) for number, chunk in found if isinstance(chunk, Chunk)]


def key_list(rows: KeyRows) -> list[bytes]:
    data = rows.data.tobytes()
    ends = rows.ends.tolist()
    return [data[start:stop] for start, stop in pairwise(ends)]


class TestAnyLog:
    @pytest.mark.parametrize("mask", [EVERYTHING_MEETS, TWO_HASHES, FOUR_HASHES])
    @given(rounds)
    @example(MANY_ROUNDS)
    def test_is_exact_although_hashes_meet(self, mask: int, steps: Rounds) -> None:
        """Goal: keys are compared, in the dirty part and in the clean one. Method: few hashes."""
        with meeting(mask):
            check_rounds(steps)

    @given(rounds, st.integers(1, 3))
    @example(MANY_ROUNDS, 1)
    @example(MANY_ROUNDS, 2)
    def test_is_the_same_in_many_buckets_and_small_chunks(self, steps: Rounds, size: int) -> None:
        with limits(BUCKET_RECORDS=size, CHUNK_RECORDS=size, CHUNK_BYTES=100):
            check_rounds(steps)


class TestCollision:
    def test_of_a_key_of_the_clean_part_drops_nothing(self) -> None:
        with meeting(EVERYTHING_MEETS):
            log = Compacted().put("a" + LARGE, "b" + LARGE).put("x=0")
            log.compact()
            log.put("c=1", "d=1").put("newest=0").compact()

        assert log.shown() == f"a{LARGE} b{LARGE} x=0 c=1 d=1 newest=0"

    def test_finds_the_key_among_those_that_are_not(self) -> None:
        with meeting(EVERYTHING_MEETS):
            log = Compacted().put("a" + LARGE, "b" + LARGE, "c" + LARGE).put("x=0")
            log.compact()
            log.put("c=1", "d=1", "a=1").put("newest=0").compact()

        assert log.shown() == f"b{LARGE} x=0 c=1 d=1 a=1 newest=0"

    def test_in_a_clean_segment_of_several_answers(self) -> None:
        """A suspect is looked for in each answer of its segment's reader."""
        with meeting(EVERYTHING_MEETS), limits(CHUNK_RECORDS=1):
            log = Compacted()
            log.put(*(f"{key}{LARGE}" for key in "abcdef"), batch_bytes=1).put("x=0").compact()
            log.put("f=1", "a=1").put("newest=0").compact()

        assert log.shown() == " ".join(
            [f"{key}{LARGE}" for key in "bcde"] + ["x=0 f=1 a=1 newest=0"]
        )


class TestBucketBits:
    @pytest.mark.parametrize(
        ("records", "bits"),
        [
            (0, 0),
            (1, 0),
            (BUCKET_RECORDS, 0),
            (BUCKET_RECORDS + 1, 1),
            (2 * BUCKET_RECORDS, 1),
            (2 * BUCKET_RECORDS + 1, 2),
            (200 * BUCKET_RECORDS, 8),
            (10**15, 8),
        ],
    )
    def test_leave_so_many_records_in_a_bucket(self, records: int, bits: int) -> None:
        assert bucket_bits(records) == bits

    @pytest.mark.parametrize(
        ("bits", "buckets"), [(0, [0, 0, 0]), (1, [0, 1, 1]), (8, [0, 128, 255])]
    )
    def test_are_the_top_ones_of_a_hash(self, bits: int, buckets: list[int]) -> None:
        hashes = np.array([1, -(2**63), -1])

        assert bucket_of(hashes, bits).tolist() == buckets


class TestIndexKeys:
    def test_yields_keys_and_offsets(self) -> None:
        log = Compacted().put("a=1", "=1", "bb", "=", "=2")
        ((number, chunk),) = chunks(log)

        assert (number, chunk.segment, chunk.key) == (0, 4, log.partition.segments[0].key)
        found = zip(chunk.rows.deltas.tolist(), key_list(chunk.rows), strict=True)
        assert sorted(found) == [(0, b"a"), (2, b"bb")]
        assert chunk.place == (4, 0)

    def test_of_a_partition_go_to_its_own_reducers(self) -> None:
        log = Compacted().put("a=1", "b=1", "c=1", "a=2", "d=1", "e=1")
        found = chunks(log, first=12, bits=2)
        numbers = [number for number, _ in found]

        assert numbers == sorted(numbers)
        assert set(numbers) <= {12, 13, 14, 15}
        assert len(set(numbers)) > 1
        for number, chunk in found:
            assert (bucket_of(chunk.rows.hashes, 2) + 12).tolist() == [number] * len(
                chunk.rows.hashes
            )
        pairs = [
            pair
            for _, chunk in found
            for pair in zip(chunk.rows.deltas.tolist(), key_list(chunk.rows), strict=True)
        ]
        assert sorted(pairs) == list(enumerate([b"a", b"b", b"c", b"a", b"d", b"e"]))

    def test_of_no_keys_are_none(self) -> None:
        assert chunks(Compacted().put("=1", "=2")) == []
        assert chunks(Compacted().put("=1", "=2"), bits=3) == []
        assert chunks(Compacted().add(marker())) == []

    def test_of_a_damaged_segment_say_so(self) -> None:
        log = Compacted().put("a=1")
        log.partition.flip_byte(log.partition.path(), 65)
        ((number, found),) = index_keys(source(log, first=4, bits=1))

        assert number == 4
        assert isinstance(found, Unreadable)
        assert "position 0, offset 0" in found.problem

    def test_come_in_chunks(self) -> None:
        log = Compacted().put("a=1", "b=1", "c=1", batch_bytes=1)
        with limits(CHUNK_RECORDS=1):
            assert len(chunks(log)) == 3


class TestMark:
    def marks(self, log: Compacted, *, reverse: bool = False) -> superseded.Marks:
        found = [chunk for _, chunk in chunks(log)]
        buckets = [Buckets(first=0, bits=0, indexed=[])]
        return mark(
            log.partition.files, DIRECTORY, buckets, 0, iter(found[::-1] if reverse else found)
        )

    @pytest.mark.parametrize("reverse", [False, True])
    def test_says_what_is_superseded_whatever_the_order_of_chunks(self, reverse: bool) -> None:
        log = Compacted().put("a=1", "b=1", "a=2", "a=3", batch_bytes=1)
        with limits(CHUNK_RECORDS=1):
            marks = self.marks(log, reverse=reverse)

        assert {key: sorted(some) for key, some in marks.superseded.items()} == {
            log.partition.segments[0].key: [0, 2]
        }
        assert (marks.slot, marks.suspects, marks.unreadable) == (0, {}, None)

    def test_says_what_is_wrong(self) -> None:
        log = Compacted().put("a=1")
        ((_, chunk),) = chunks(log)
        damage = Unreadable("t.log, position 7: damaged", is_missing=False)
        found: list[Chunk | Unreadable] = [chunk, damage]
        buckets = [Buckets(first=first, bits=2, indexed=[]) for first in (0, 4, 8)]
        marks = mark(log.partition.files, DIRECTORY, buckets, 5, iter(found))

        assert (marks.slot, marks.unreadable) == (1, damage)
        assert (marks.superseded, marks.suspects) == ({}, {})


class TestKeyRows:
    def test_of_no_records(self) -> None:
        nothing = pa.array([], pa.binary())
        some = next(key_records(source(Compacted().put("a=1"))))
        none = DecodedRecords(
            **{name: getattr(some, name) for name in some.__slots__}
            | {"key": nothing, "offset": pa.array([], pa.int64()), "num_rows": 0}
        )
        rows = KeyRows.of(none, 0)

        assert (len(rows.deltas), len(rows.hashes), rows.ends.tolist()) == (0, 0, [0])
        assert len(rows.sorted_by_hash().deltas) == 0
