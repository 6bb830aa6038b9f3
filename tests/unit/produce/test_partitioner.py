import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparklog.errors import InvalidOptionError, SchemaError, UnknownTopicError
from sparklog.produce.partitioner import (
    DefaultPartitioner,
    Partitioner,
    merge_explicit,
    resolve_by_row,
    resolve_partitioner,
)
from sparklog.record.rows import RecordColumns
from tests.naive.murmur2 import partition

KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=8)), max_size=50)
COUNTS = st.integers(1, 12)


def columns(keys: list[bytes | None], value_size: int = 10) -> RecordColumns:
    value = pa.array([bytes(value_size)] * len(keys), pa.binary())
    return RecordColumns(pa.array(keys, pa.binary()), value, np.zeros(len(keys), np.int64))


def keyless(count: int, value_size: int = 10) -> RecordColumns:
    return columns([None] * count, value_size)


def made(name: str = "default", batch_bytes: int = 1000, seed: int = 1) -> Partitioner:
    return resolve_partitioner(name, batch_bytes, seed)


def runs(partitions: NDArray[np.int32]) -> list[int]:
    """Lengths of the stretches of equal partitions."""
    borders = np.flatnonzero(np.diff(partitions)) + 1
    lengths: list[int] = np.diff([0, *borders.tolist(), len(partitions)]).tolist()
    return lengths


class TestByRow:
    @given(KEYS, COUNTS)
    def test_keys_go_where_kafka_sends_them(self, keys: list[bytes | None], count: int) -> None:
        """Goal: keys as ever. Method: compare with the default partitioner."""
        given = columns(keys)
        assigned = resolve_by_row("default", 1).assign(given, count)
        has_key = np.array([key is not None for key in keys], np.bool_)

        assert assigned.dtype == np.int32
        assert ((assigned >= 0) & (assigned < count)).all()
        assert (assigned == made().assign(given, count))[has_key].all()

    @pytest.mark.parametrize("name", ["default", "uniform-sticky", "round-robin"])
    @pytest.mark.parametrize("key", [pa.nulls(4000, pa.binary()), pa.nulls(4000)])
    def test_rows_without_keys_are_spread_evenly(self, name: str, key: pa.Array) -> None:
        value = pa.array([b"%d" % number for number in range(4000)])
        rows = RecordColumns(key, value, np.zeros(4000, np.int64))
        counts = Counter(resolve_by_row(name, 1).assign(rows, 4).tolist())

        assert sorted(counts) == [0, 1, 2, 3]
        assert min(counts.values()) > 900

    def test_time_tells_rows_of_one_value_apart(self) -> None:
        rows = keyless(1000)
        found = resolve_by_row("default", 1)

        assert len(set(found.assign(rows, 4).tolist())) == 1
        later = RecordColumns(rows.key, rows.value, np.arange(1000))
        assert len(set(found.assign(later, 4).tolist())) == 4

    def test_a_function_is_asked_as_ever(self) -> None:
        found = resolve_by_row("tests.spark.frames:last_partition", 1)

        assert found.assign(keyless(3), 4).tolist() == [3, 3, 3]


class TestDefault:
    @given(KEYS, COUNTS)
    def test_keys_go_where_kafka_sends_them(self, keys: list[bytes | None], count: int) -> None:
        """Goal: Kafka's partition for every key, others in range. Method: the murmur2 twin."""
        assigned = made().assign(columns(keys), count)

        assert assigned.dtype == np.int32
        for key, got in zip(keys, assigned.tolist(), strict=True):
            assert 0 <= got < count
            assert key is None or got == partition(key, count)

    def test_an_empty_key_is_a_key(self) -> None:
        assert set(made().assign(columns([b""] * 9), 7).tolist()) == {partition(b"", 7)}

    def test_a_slice_of_keys_is_hashed_as_such(self) -> None:
        whole = columns([b"other", None, b"a", b"foobar"])
        part = RecordColumns(whole.key[2:], whole.value[2:], whole.timestamp[2:])

        assert made().assign(part, 10).tolist() == [partition(b"a", 10), 6]

    def test_string_keys_are_hashed_as_utf_8(self) -> None:
        rows = RecordColumns(pa.array(["é"]), pa.array(["x"]), np.zeros(1, np.int64))

        assert made().assign(rows, 1000).tolist() == [partition("é".encode(), 1000)]

    def test_rows_without_key_stay_together_among_those_with_one(self) -> None:
        keys: list[bytes | None] = [None, b"a"] * 10
        assigned = made().assign(columns(keys), 10)

        assert len(set(assigned[::2].tolist())) == 1
        assert set(assigned[1::2].tolist()) == {partition(b"a", 10)}

    def test_refuses_keys_that_are_no_bytes(self) -> None:
        rows = RecordColumns(pa.array([1]), pa.array([b""]), np.zeros(1, np.int64))

        with pytest.raises(SchemaError, match="column key is int64"):
            made().assign(rows, 3)


class TestSticky:
    def test_switches_after_a_batch_of_bytes(self) -> None:
        record = 100 + 2 + 2 + 1 + 4  # value, its length, the record's, the null key, the rest
        batch_bytes = 5 * record
        assigned = made("uniform-sticky", batch_bytes).assign(keyless(1000, 100), 1000)

        assert set(runs(assigned)) == {5}

    def test_a_byte_more_needs_one_more_record(self) -> None:
        assigned = made("uniform-sticky", 5 * 109 + 1).assign(keyless(996, 100), 10**6)

        assert set(runs(assigned)) == {6}

    def test_ignores_keys_when_uniform(self) -> None:
        keys: list[bytes | None] = [bytes([number]) for number in range(50)]

        assert len(set(made("uniform-sticky", 10**6).assign(columns(keys), 100).tolist())) == 1

    def test_remembers_from_call_to_call(self) -> None:
        whole = made().assign(keyless(100, 100), 50)
        one = made()
        parts = [one.assign(keyless(size, 100), 50) for size in (1, 0, 30, 69)]

        assert runs(np.concatenate(parts))[:-1] == runs(whole)[:-1]

    def test_the_seed_decides(self) -> None:
        rows = keyless(200, 1000)
        first, again, other = (made(seed=seed).assign(rows, 9).tolist() for seed in (1, 1, 2))

        assert first == again != other

    def test_reaches_all_partitions_about_equally(self) -> None:
        counts = Counter(made(batch_bytes=1).assign(keyless(4000), 4).tolist())

        assert set(counts) == {0, 1, 2, 3}
        assert min(counts.values()) > 800

    @pytest.mark.parametrize("batch_bytes", (0, 1))
    def test_without_a_batch_size_every_record_draws(self, batch_bytes: int) -> None:
        assigned = made(batch_bytes=batch_bytes).assign(keyless(500, 0), 10**6)

        assert set(runs(assigned)) == {1}

    def test_forgets_a_partition_that_is_not_there_any_more(self) -> None:
        sticky = made(batch_bytes=10**6)
        sticky.assign(keyless(3), 1000)

        assert set(sticky.assign(keyless(3), 1).tolist()) == {0}

    @given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 500))
    def test_draws_never_run_out(self, sizes: list[int], batch_bytes: int) -> None:
        """Goal: enough random choices for any sizes. Method: any sizes, against a plain count."""
        value = pa.array([bytes(size) for size in sizes], pa.binary())
        rows = RecordColumns(pa.nulls(len(sizes)), value, np.zeros(len(sizes), np.int64))
        assigned = made(batch_bytes=batch_bytes).assign(rows, 2**31 - 1)

        expected, filled = [], batch_bytes
        for size in sizes:
            if filled >= batch_bytes:
                expected.append(0)
                filled = 0
            body = 4 + 1 + size + (1 if size < 64 else 2)
            filled += body + (1 if body < 64 else 2)
            expected[-1] += 1
        assert runs(assigned) == (expected or [0])


class TestStay:
    @given(
        calls=st.lists(st.lists(st.integers(-1, 300), max_size=4), max_size=12),
        counts=st.lists(st.integers(1, 4), min_size=12, max_size=12),
        batch_bytes=st.integers(1, 2000),
    )
    def test_assigns_as_the_kernel_does_or_does_nothing(
        self, calls: list[list[int]], counts: list[int], batch_bytes: int
    ) -> None:
        """Goal: a few rows without keys go where the kernel would put them.

        Method: two partitioners of one seed get the same rows; one of them is first asked whether
        the rows stay.
        """
        quick, plain = DefaultPartitioner(batch_bytes, 7), DefaultPartitioner(batch_bytes, 7)
        for sizes, count in zip(calls, counts, strict=False):
            values = pa.array([None if size < 0 else b"x" * size for size in sizes], pa.binary())
            times = np.zeros(len(sizes), np.int64)
            rows = RecordColumns(pa.nulls(len(sizes), pa.binary()), values, times)
            expected = plain.assign(rows, count).tolist()
            stayed = quick.stay(sizes, count)
            found = quick.assign(rows, count).tolist() if stayed is None else [stayed] * len(sizes)
            assert found == expected


class TestRoundRobin:
    def test_begins_at_0_and_goes_on_from_call_to_call(self) -> None:
        one = made("round-robin")
        first = one.assign(columns([b"same"] * 5), 3)
        second = one.assign(keyless(3), 3)

        assert first.tolist() == [0, 1, 2, 0, 1]
        assert second.tolist() == [2, 0, 1]
        assert first.dtype == np.int32


class TestFunction:
    @pytest.fixture
    def answer(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Partitioner]:
        """Makes a partitioner `mine:choose` that gives this answer."""

        def install(answer: Any) -> Partitioner:
            module = ModuleType("mine")
            module.choose = lambda *_: answer  # type: ignore[attr-defined] # made up here
            monkeypatch.setitem(sys.modules, "mine", module)
            return made("mine:choose")

        return install

    @pytest.mark.parametrize(
        "given_back",
        (
            [2, 0],
            np.array([2, 0]),
            np.array([2, 0], np.uint8),
            pa.array([2, 0]),
            pa.array([2, 0], pa.int32()),
            pa.chunked_array([[2], [0]]),
        ),
    )
    def test_its_answer_is_taken(
        self, answer: Callable[[Any], Partitioner], given_back: Any
    ) -> None:
        assigned = answer(given_back).assign(keyless(2), 3)

        assert assigned.tolist() == [2, 0]
        assert assigned.dtype == np.int32

    def test_is_handed_keys_values_and_the_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Any] = []

        def choose(*given: Any) -> list[int]:
            seen.append(given)
            return [0, 0]

        module = ModuleType("mine")
        module.choose = choose  # type: ignore[attr-defined] # made up here
        monkeypatch.setitem(sys.modules, "mine", module)
        rows = columns([b"a", None])
        made("mine:choose").assign(rows, 3)

        assert seen == [(rows.key, rows.value, 3)]

    @pytest.mark.parametrize(
        ("given_back", "why"),
        (
            ([0], "returned 1 partitions for 2 rows"),
            ([0, None], "returned null for row 1"),
            ([0, 3], "returned 3 for row 1; the topic has partitions 0 to 2"),
            ([-1, 0], "returned -1 for row 0;"),
            ([0.0, 1.0], "returned double; partitions are integers"),
            (["0", "1"], "returned string;"),
            (7, "returned int, not an array"),
            (None, "returned NoneType, not an array"),
        ),
    )
    def test_an_answer_that_is_no_partition_per_row_is_refused(
        self, answer: Callable[[Any], Partitioner], given_back: Any, why: str
    ) -> None:
        with pytest.raises(InvalidOptionError) as caught:
            answer(given_back).assign(keyless(2), 3)

        assert f"partitioner mine:choose {why}" in caught.value.message

    @pytest.mark.parametrize(
        ("name", "why"),
        (
            ("murmur", "is not default, round-robin, uniform-sticky or module:function"),
            ("", "is not default"),
            (":f", "is not default"),
            ("m:", "is not default"),
            ("no_such_module:f", "cannot be imported: No module named 'no_such_module'"),
            ("math:no_such_function", "cannot be imported"),
            ("math:pi", "is float, not a function"),
        ),
    )
    def test_a_name_that_leads_nowhere_is_refused(self, name: str, why: str) -> None:
        with pytest.raises(InvalidOptionError) as caught:
            made(name)

        assert why in caught.value.message
        assert repr(name) in caught.value.message


class TestMergeExplicit:
    ASSIGNED = np.array([1, 1, 1], np.int32)

    def merge(self, explicit: Any) -> list[int]:
        merged: list[int] = merge_explicit(explicit, lambda: self.ASSIGNED, 3).tolist()
        return merged

    def test_named_partitions_win_row_by_row(self) -> None:
        assert self.merge(pa.array([None, 2, 0], pa.int32())) == [1, 2, 0]

    @pytest.mark.parametrize("explicit", (None, pa.nulls(3), pa.array([None] * 3, pa.int32())))
    def test_without_names_the_assigned_ones_stay(self, explicit: Any) -> None:
        assert self.merge(explicit) == [1, 1, 1]

    def test_nothing_is_assigned_when_every_row_names_one(self) -> None:
        merged = merge_explicit(pa.array([2, 0, 1]), lambda: pytest.fail("asked"), 3)

        assert merged.tolist() == [2, 0, 1]
        assert merged.dtype == np.int32

    @pytest.mark.parametrize("wrong", (-1, 3, 2**40))
    def test_a_partition_outside_is_refused_by_row(self, wrong: int) -> None:
        with pytest.raises(UnknownTopicError) as caught:
            self.merge(pa.array([None, wrong, 0], pa.int64()))

        assert caught.value.message == (
            f"row 1 names partition {wrong}; the topic has partitions 0 to 2, and a row with null "
            "gets one"
        )

    def test_other_types_are_refused(self) -> None:
        with pytest.raises(InvalidOptionError, match="column partition is string"):
            self.merge(pa.array(["1", "2", "0"]))
