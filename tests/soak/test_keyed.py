"""The checker of the compacted topic finds each anomaly: a sound history, spoilt in one thing."""

from itertools import count

from tests.soak.checker import Anomaly, History
from tests.soak.history import Answered, Begun, Event, Polled, Read
from tests.soak.keyed import check_keyed, columns, is_tombstone, key_of, observed, seen_as
from tests.soak.values import DAMAGED, pack

KEY = 7


def values_of(key: int, *, tombstone: bool) -> list[int]:
    """Values of a key, with or without a record's value."""
    found = (pack(0, 0, row) for row in count())
    fitting = (one for one in found if key_of(one) == key and is_tombstone(one) == tombstone)
    return [next(fitting) for _ in range(3)]


OLD, NEW, LAST = values_of(KEY, tombstone=False)
GONE = values_of(KEY, tombstone=True)[0]
OTHER = values_of(KEY + 1, tombstone=False)[0]
WRITTEN = [OLD, OTHER, NEW, GONE]
"""The log at offsets 0 to 3: key 7, key 8, key 7 again, and its tombstone."""


def poll(*seen: tuple[int, int], end: int = 4) -> Polled:
    read = Read(0, 0, end, [value for _, value in seen], [offset for offset, _ in seen])
    return Polled("r", 10, 11, [0], [end], 1, 0, [read])


def found(*polls: Event, cleaned: int = 0, start: int = 0) -> set[Anomaly]:
    begun = Begun(0, 0, [(0, WRITTEN)])
    answered = Answered(0, 0, [(0, start, start + 4)], False, 1, 2)
    history = History([begun, answered, answered, *polls])
    return {one.anomaly for one in check_keyed(history, [cleaned])}


ALL = poll(*enumerate(map(seen_as, WRITTEN)))


class TestSound:
    def test_is_the_log_as_it_was_written(self) -> None:
        assert found(ALL) == set()

    def test_is_a_log_without_what_was_superseded(self) -> None:
        assert found(poll((1, OTHER), (3, seen_as(GONE)))) == set()

    def test_is_a_log_without_the_tombstone_and_all_it_hides(self) -> None:
        assert found(poll((1, OTHER))) == set()

    def test_is_a_snapshot_of_before(self) -> None:
        assert found(poll((1, OTHER), (2, NEW), end=3), ALL) == set()


class TestAnomalies:
    def test_a_key_is_lost(self) -> None:
        assert found(poll((3, seen_as(GONE)))) == {Anomaly.LOST}

    def test_an_older_value_is_all_that_is_left(self) -> None:
        assert found(poll((0, OLD), (1, OTHER), end=3)) == {Anomaly.LOST}

    def test_a_value_is_back_when_its_tombstone_went_first(self) -> None:
        assert found(poll((1, OTHER), (2, NEW))) == {Anomaly.LOST}

    def test_another_value_stands_at_an_offset(self) -> None:
        assert found(poll((1, OTHER), (2, LAST), (3, seen_as(GONE)))) == {Anomaly.UNKNOWN}

    def test_a_record_comes_twice(self) -> None:
        assert found(poll((1, OTHER), (1, OTHER), (3, seen_as(GONE)))) == {Anomaly.HOLE}

    def test_a_key_is_there_twice_where_all_is_clean(self) -> None:
        assert found(ALL, cleaned=4) == {Anomaly.DUPLICATE}

    def test_what_was_acknowledged_leaves_a_gap(self) -> None:
        shifted = poll(*((at + 1, seen_as(one)) for at, one in enumerate(WRITTEN)), end=5)

        assert found(shifted, start=1) == {Anomaly.HOLE}

    def test_two_writes_got_the_same_offsets(self) -> None:
        begun = Begun(1, 0, [(0, [LAST])])
        answered = Answered(1, 0, [(0, 3, 4)], False, 3, 4)

        assert Anomaly.WRONG_RANGES in found(begun, answered, ALL)


class TestARecord:
    def test_is_noted_as_what_was_written(self) -> None:
        written = columns([*WRITTEN, LAST], 5)
        seen = map(observed, written.key.to_pylist(), written.value.to_pylist())

        assert list(seen) == [seen_as(one) for one in (*WRITTEN, LAST)]

    def test_under_another_key_is_damaged(self) -> None:
        value = columns([OLD], 5).value[0].as_py()

        assert observed(b"%d" % (KEY + 1), value) == DAMAGED
