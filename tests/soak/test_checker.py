"""The checker finds each anomaly: a sound history, spoilt in one thing."""

from dataclasses import replace
from typing import Any

from tests.soak.checker import Anomaly, History, check
from tests.soak.history import (
    Abandoned,
    Altered,
    Answered,
    Begun,
    Deleted,
    DeletionAsked,
    Event,
    Failed,
    Polled,
    Read,
)
from tests.soak.values import DAMAGED, pack

A, B, C = (1, 0), (2, 0), (1, 1)
"""Three writes: two producers, and a second version of the first."""


def rows(write: tuple[int, int], *numbers: int) -> list[int]:
    return [pack(*write, number) for number in numbers]


IN_0 = rows(A, 0, 2) + rows(B, 0, 1) + rows(C, 0)
"""What stands in partition 0, from offset 0 on."""
IN_1 = rows(A, 1) + rows(C, 1, 2)


def poll(reader: str, began: int, *reads: Read, starts: tuple[int, int] = (0, 0)) -> Polled:
    ends = [read.end for read in reads]
    return Polled(reader, began, began + 1, list(starts), ends, 2, 1, list(reads))


BEGUN_A = Begun(*A, [(0, IN_0[:2]), (1, IN_1[:1])])
BEGUN_B = Begun(*B, [(0, IN_0[2:4])])
ANSWERED_A = Answered(*A, [(0, 0, 2), (1, 0, 1)], False, 10, 19)
ANSWERED_B = Answered(*B, [(0, 2, 4)], True, 30, 39)
ANSWERED_C = Answered(*C, [(0, 4, 5), (1, 1, 3)], False, 40, 49)
REPLAYED_C = replace(ANSWERED_C, replayed=True, began=51, ended=52)
REPLAYED_A = Answered(*A, None, True, 53, 54)
ASKED = DeletionAsked(0, 1, 60)
FIRST = poll("tail", 20, Read(0, 0, 2, IN_0[:2]), Read(1, 0, 1, IN_1[:1]))
SECOND = poll("tail", 50, Read(0, 2, 5, IN_0[2:]), Read(1, 1, 3, IN_1[1:]))
LAST = poll("the end", 70, Read(0, 1, 5, IN_0[1:]), Read(1, 0, 3, IN_1), starts=(1, 0))

SOUND: list[Event] = [
    *(BEGUN_A, ANSWERED_A, Altered(2, 1, 15), FIRST, BEGUN_B, ANSWERED_B),
    *(Begun(*C, [(0, IN_0[4:]), (1, IN_1[1:])]), ANSWERED_C, SECOND, REPLAYED_C, REPLAYED_A),
    *(ASKED, Deleted(0, 1, 69), LAST),
]


def found(*events: Event) -> set[Anomaly]:
    return {anomaly for anomaly, _ in check(History(list(events)))}


def spoilt(old: Event, *new: Event) -> set[Anomaly]:
    """What is found when one event did not happen, or others in its place."""
    assert old in SOUND

    return found(*(event for was in SOUND for event in (new if was is old else (was,))))


def reading(old: Polled, slot: int, **fields: Any) -> Polled:
    """The poll with one of its reads changed."""
    reads = list(old.reads)
    reads[slot] = replace(reads[slot], **fields)
    return replace(old, reads=reads)


class TestASoundHistory:
    def test_has_no_anomaly(self) -> None:
        assert found(*SOUND) == set()

    def test_may_end_before_anything_was_written(self) -> None:
        assert found(Polled("the end", 1, 2, [0], [0], 1, 0, [Read(0, 0, 0, [])])) == set()

    def test_may_have_a_write_of_unknown_outcome(self) -> None:
        assert spoilt(ANSWERED_B) == set()

    def test_may_have_such_a_write_that_did_not_land(self) -> None:
        assert found(*SOUND[:-1], Begun(3, 0, [(0, rows((3, 0), 0))]), LAST) == set()

    def test_may_read_at_random_what_is_half_of_a_write(self) -> None:
        half = poll("wanderer", 22, Read(0, 1, 2, IN_0[1:2]), Read(1, 1, 1, []))

        assert found(*SOUND[:-1], replace(half, is_whole=False), LAST) == set()


class TestAcknowledgedRecords:
    def test_that_are_gone_are_lost(self) -> None:
        cut = reading(replace(LAST, ends=[5, 2]), 1, end=2, values=IN_1[:2])

        assert spoilt(LAST, cut) == {Anomaly.LOST, Anomaly.TORN, Anomaly.BACKWARDS}

    def test_whose_partition_is_gone_are_lost(self) -> None:
        cut = replace(LAST, reads=LAST.reads[:1], starts=[1], ends=[5])

        assert spoilt(LAST, cut) == {Anomaly.LOST, Anomaly.TORN, Anomaly.BACKWARDS}

    def test_that_never_appear_are_lost(self) -> None:
        never = Begun(3, 0, [(0, rows((3, 0), 0))])
        answer = Answered(3, 0, [(0, 5, 6)], False, 80, 81)

        assert found(*SOUND[:-1], never, answer, LAST) == {Anomaly.LOST}

    def test_with_others_at_their_offsets_are_misplaced(self) -> None:
        swapped = replace(ANSWERED_B, ranges=[(0, 1, 3)])

        assert spoilt(ANSWERED_B, swapped) == {Anomaly.MISPLACED}

    def test_come_in_ranges_of_their_number(self) -> None:
        short = replace(ANSWERED_B, ranges=[(0, 2, 3)])

        assert spoilt(ANSWERED_B, short) == {Anomaly.WRONG_RANGES}

    def test_come_in_the_partitions_of_the_write(self) -> None:
        less = replace(ANSWERED_A, ranges=[(0, 0, 2)])

        assert spoilt(ANSWERED_A, less) == {Anomaly.WRONG_RANGES}


class TestOffsets:
    def test_have_one_value_for_all_readers(self) -> None:
        other = reading(FIRST, 0, values=[IN_0[0], IN_0[4]])

        assert Anomaly.INCONSISTENT in spoilt(FIRST, other)

    def test_hold_a_value_once(self) -> None:
        twice = reading(LAST, 0, values=[IN_0[1], IN_0[2], IN_0[2], IN_0[4]])

        assert Anomaly.DUPLICATE in spoilt(LAST, twice)

    def test_hold_a_value_in_one_partition(self) -> None:
        twice = reading(replace(LAST, ends=[5, 4]), 1, end=4, values=[*IN_1, IN_0[2]])

        assert {Anomaly.DUPLICATE, Anomaly.UNKNOWN} <= spoilt(LAST, twice)

    def test_have_no_hole(self) -> None:
        hole = reading(SECOND, 0, offsets=[2, 4], values=[IN_0[2], IN_0[4]])

        assert Anomaly.HOLE in spoilt(SECOND, hole)

    def test_are_read_to_the_end(self) -> None:
        random = replace(reading(FIRST, 0, values=IN_0[:1]), is_whole=False)

        assert spoilt(FIRST, random) == {Anomaly.HOLE}

    def test_come_in_order(self) -> None:
        back = reading(SECOND, 1, offsets=[2, 1], values=IN_1[:0:-1])

        assert spoilt(SECOND, back) == {Anomaly.HOLE, Anomaly.TORN}


class TestValues:
    def test_that_nobody_wrote_are_found(self) -> None:
        odd = reading(replace(LAST, ends=[5, 4]), 1, end=4, values=[*IN_1, pack(9, 9, 9)])

        assert spoilt(LAST, odd) == {Anomaly.UNKNOWN}

    def test_that_are_damaged_are_found(self) -> None:
        bad = reading(replace(LAST, ends=[5, 4]), 1, end=4, values=[*IN_1, DAMAGED])

        assert spoilt(LAST, bad) == {Anomaly.UNKNOWN}

    def test_of_a_write_that_was_given_up_are_found(self) -> None:
        assert spoilt(ANSWERED_B, Abandoned(*B)) == {Anomaly.UNCOMMITTED}

    def test_of_a_write_out_of_order_are_found(self) -> None:
        reversed_b = replace(BEGUN_B, values=[(0, IN_0[3:1:-1])])
        polls = [
            reading(SECOND, 0, values=[*IN_0[3:1:-1], IN_0[4]]),
            reading(LAST, 0, values=[IN_0[1], *IN_0[3:1:-1], IN_0[4]]),
        ]
        changed: dict[int, Event] = dict(
            zip(map(id, (BEGUN_B, SECOND, LAST)), (reversed_b, *polls), strict=True)
        )

        assert found(*(changed.get(id(event), event) for event in SOUND)) == {Anomaly.REORDERED}

    def test_of_a_later_write_before_an_earlier_one_are_found(self) -> None:
        early = Begun(1, 2, [(1, rows((1, 2), 0))])
        late = Begun(1, 1_000, [(1, rows((1, 1_000), 0))])
        values = [*IN_1, *rows((1, 1_000), 0), *rows((1, 2), 0)]
        end = reading(replace(LAST, ends=[5, 5]), 1, end=5, values=values)

        assert found(*SOUND[:-1], early, late, end) == {Anomaly.REORDERED}


class TestReplays:
    def test_are_answered_with_the_same_offsets(self) -> None:
        other = replace(REPLAYED_C, ranges=[(0, 0, 1), (1, 1, 3)])

        assert spoilt(REPLAYED_C, other) == {Anomaly.OTHER_ANSWER}

    def test_of_the_newest_write_are_answered_with_offsets(self) -> None:
        assert spoilt(REPLAYED_C, replace(REPLAYED_C, ranges=None)) == {Anomaly.OTHER_ANSWER}

    def test_of_what_was_never_answered_are_answered_with_offsets(self) -> None:
        strange = replace(ANSWERED_B, ranges=None)

        assert spoilt(ANSWERED_B, strange) == {Anomaly.OTHER_ANSWER}


class TestWrites:
    def test_are_visible_in_all_partitions_at_once(self) -> None:
        early = reading(replace(FIRST, ends=[2, 0]), 1, end=0, values=[])
        rest = reading(SECOND, 1, start=0, values=IN_1)
        unanswered = [event for event in SOUND if event is not ANSWERED_A]
        changed: dict[int, Event] = {id(FIRST): early, id(SECOND): rest}

        assert found(*(changed.get(id(event), event) for event in unanswered)) == {Anomaly.TORN}

    def test_may_have_lost_their_first_records_to_a_deletion(self) -> None:
        trimmed = poll("late", 71, Read(0, 3, 5, IN_0[3:]), Read(1, 0, 3, IN_1), starts=(3, 0))

        assert found(*SOUND[:-1], DeletionAsked(0, 3, 61), trimmed) == set()

    def test_may_not_have_lost_their_last_records(self) -> None:
        first, last, other = rows((3, 0), 0, 1, 2)
        in_0, in_1 = [*IN_0[1:], first], [*IN_1, other]
        cut = poll("the end", 70, Read(0, 1, 6, in_0), Read(1, 0, 4, in_1), starts=(1, 0))

        assert spoilt(LAST, Begun(3, 0, [(0, [first, last]), (1, [other])]), cut) == {Anomaly.TORN}

    def test_may_not_have_lost_records_above_the_log_start(self) -> None:
        cut = poll("tail", 71, Read(0, 5, 5, []), Read(1, 3, 4, rows((3, 0), 1)), starts=(1, 0))
        begun = Begun(3, 0, [(0, rows((3, 0), 0)), (1, rows((3, 0), 1))])

        assert found(*SOUND, begun, cut) == {Anomaly.TORN, Anomaly.LOST}


class TestTheLogsBounds:
    def test_end_does_not_go_back(self) -> None:
        behind = Polled("stale", 61, 62, [0, 0], [4, 3], 2, 1, is_whole=False)

        assert found(*SOUND[:-1], behind, LAST) == {Anomaly.BACKWARDS}

    def test_end_is_known_to_whoever_comes_after_the_answer(self) -> None:
        behind = Polled("stale", 20, 22, [0, 0], [1, 1], 2, 1, is_whole=False)

        assert found(*SOUND[:-1], behind, LAST) == {Anomaly.BACKWARDS}

    def test_end_may_be_older_for_who_began_before(self) -> None:
        meanwhile = Polled("slow", 18, 72, [0, 0], [0, 0], 2, 1, is_whole=False)

        assert found(*SOUND[:-1], meanwhile, LAST) == set()

    def test_start_does_not_go_back(self) -> None:
        behind = Polled("stale", 75, 76, [0, 0], [5, 3], 2, 1, is_whole=False)

        assert found(*SOUND[:-1], behind, LAST) == {Anomaly.BACKWARDS}

    def test_start_rises_on_request_only(self) -> None:
        assert spoilt(ASKED) == {Anomaly.UNASKED}

    def test_start_rises_as_far_as_asked(self) -> None:
        assert spoilt(ASKED, DeletionAsked(1, 1, 60)) == {Anomaly.UNASKED}

    def test_metadata_does_not_go_back(self) -> None:
        fewer, older = replace(SECOND, partitions=1), replace(SECOND, revision=0)

        assert spoilt(SECOND, fewer) == spoilt(SECOND, older) == {Anomaly.BACKWARDS}


class TestProcesses:
    def test_do_not_fail(self) -> None:
        assert found(*SOUND, Failed("reader-1", "ValueError")) == {Anomaly.FAILED}
