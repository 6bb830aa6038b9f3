"""The checker of transactions finds each anomaly: a sound history, spoilt in one thing."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.soak.history import Failed, Journal
from tests.soak.transactions.checker import Anomaly, History, check
from tests.soak.transactions.history import (
    COMMITTED,
    UNCOMMITTED,
    Asked,
    Audited,
    Began,
    Ended,
    Event,
    Final,
    Outcome,
    Pairs,
    Polled,
    load,
)

A, B = "a:0", "b:0"


def txn(
    name: str, *sends: tuple[str, int], at: int, outcome: str = Outcome.COMMITTED
) -> tuple[Began, Asked, Ended]:
    """A transaction of four moments: it sends to (key, offset)."""
    sent = [(key, offset, f"{name}/{rank}") for rank, (key, offset) in enumerate(sends)]
    written = tuple((key, value) for key, _, value in sent)
    is_commit = outcome == Outcome.COMMITTED
    return (
        Began(name, written, at),
        Asked(name, is_commit, at + 1),
        Ended(name, outcome, tuple(sent), at + 3),
    )


def poll(reader: str, at: int, txn: str = "", *, a: Pairs = (), b: Pairs = ()) -> Polled:
    return Polled(reader, COMMITTED, ((A, a), (B, b)), at, at + 1, txn)


def final(isolation: str, a: Sequence[tuple[int, str]], b: Sequence[tuple[int, str]]) -> Final:
    return Final(isolation, ((A, tuple(a)), (B, tuple(b))))


T1 = txn("t1", (A, 0), (A, 1), (B, 0), at=10)
T2 = txn("t2", (A, 3), (B, 2), at=20, outcome=Outcome.ABORTED)
T3 = txn("t3", (A, 5), at=30)
COPY = txn("copy", (B, 4), at=40)
IN_A: Pairs = ((0, "t1/0"), (1, "t1/1"), (5, "t3/0"))
IN_B: Pairs = ((0, "t1/2"), (4, "copy/0"))
ALL_A: Pairs = (*IN_A[:2], (3, "t2/0"), IN_A[2])
ALL_B: Pairs = (IN_B[0], (2, "t2/1"), IN_B[1])
FIRST = replace(poll("r", 14, a=IN_A[:2], b=IN_B[:1]), ends=(A, B))
SECOND = replace(poll("r", 50, a=IN_A[2:], b=IN_B[1:]), ends=(A, B))
DIRTY = replace(poll("u", 25, a=ALL_A[:3]), isolation=UNCOMMITTED)
INSIDE = poll("group", 35, "copy", a=IN_A[:1])
INSIDE_TOO = poll("group", 37, "copy", a=IN_A[1:])
AUDIT = Audited(7, True, 0)
END = final(COMMITTED, IN_A, IN_B)
WHOLE = final(UNCOMMITTED, ALL_A, ALL_B)
SOUND: tuple[Event, ...] = (
    *(*T1, *T2, *T3, *COPY),
    *(FIRST, SECOND, DIRTY, INSIDE, INSIDE_TOO, AUDIT, END, WHOLE),
)


def found(events: Iterable[Event]) -> set[Anomaly]:
    return {one.anomaly for one in check(History(list(events)))}


def spoilt(*changes: tuple[Event, Event | None]) -> set[Anomaly]:
    """What is found when events are replaced, or left out (None)."""
    others = {id(event): other for event, other in changes}
    events = (others.get(id(event), event) for event in SOUND)
    return found(event for event in events if event is not None)


def straddled(*between: Event) -> list[Event]:
    """A reader has met one record of "cut" in A, and not the other, with `between`'s in between."""
    cut = txn("cut", (A, 6), (A, 8), at=60)
    more: Pairs = ((6, "cut/0"), (8, "cut/1"))
    log = final(COMMITTED, IN_A + more, IN_B)
    dirty = final(UNCOMMITTED, (*ALL_A, more[0], (7, "open/0"), more[1]), ALL_B)
    late = replace(poll("r", 64, a=more[:1]), ends=(A,))
    rest = poll("r", 90, a=more[1:])
    changed = {id(END): log, id(WHOLE): dirty}
    return [*(changed.get(id(event), event) for event in SOUND), *cut, *between, late, rest]


class TestSound:
    def test_has_no_anomaly(self) -> None:
        assert found(SOUND) == set()

    def test_is_a_transaction_of_unknown_outcome_that_shows_or_does_not(self) -> None:
        shows = spoilt((T3[2], replace(T3[2], outcome=Outcome.UNKNOWN)))
        killed = spoilt((T3[2], None))
        hidden = found((*SOUND, *txn("t4", (A, 9), at=60, outcome=Outcome.UNKNOWN)[:2]))

        assert shows == killed == hidden == set()

    def test_is_an_open_transaction_with_money_on_its_way(self) -> None:
        assert found((*SOUND, Audited(8, False, -5))) == set()

    def test_is_a_reader_that_an_open_transaction_keeps_from_the_rest_of_another(self) -> None:
        assert found(straddled(*txn("open", (A, 7), at=65)[:2])) == set()

    def test_is_a_group_whose_partitions_moved_between_two_polls(self) -> None:
        moved = replace(INSIDE_TOO, is_moved=True, reads=((A, IN_A[2:]),))
        other = txn("copy2", (B, 6), at=55)
        between = poll("group", 54, "copy2", a=IN_A[1:2])
        b = ((6, "copy2/0"),)
        ends = (
            (END, final(COMMITTED, IN_A, IN_B + b)),
            (WHOLE, final(UNCOMMITTED, ALL_A, ALL_B + b)),
        )
        changed = {id(old): new for old, new in (*ends, (INSIDE_TOO, moved))}
        events = [changed.get(id(event), event) for event in SOUND]

        assert found([*events, *other, between]) == set()


class TestWrites:
    def test_of_a_committed_transaction_that_are_gone_are_lost(self) -> None:
        gone = spoilt((END, final(COMMITTED, IN_A[:2], IN_B)))

        assert gone == {Anomaly.LOST, Anomaly.VANISHED}

    def test_of_a_transaction_that_show_in_part_are_torn(self) -> None:
        unknown = T1[2], replace(T1[2], outcome=Outcome.UNKNOWN)
        ends = (END, final(COMMITTED, IN_A, IN_B[1:])), (FIRST, None), (SECOND, None)

        assert spoilt(unknown, *ends) == {Anomaly.TORN}

    def test_of_an_aborted_transaction_are_not_visible(self) -> None:
        dirty = final(COMMITTED, ALL_A, ALL_B)

        assert Anomaly.ABORTED_READ in spoilt((END, dirty))

    def test_of_an_aborted_transaction_are_not_read(self) -> None:
        late = replace(SECOND, reads=((A, ALL_A[2:]), (B, IN_B[1:])))

        assert spoilt((SECOND, late)) >= {Anomaly.ABORTED_READ, Anomaly.VANISHED}

    def test_are_not_visible_before_their_commit(self) -> None:
        early = replace(FIRST, began=8, ended=11)

        assert spoilt((FIRST, early)) == {Anomaly.EARLY_READ}

    def test_are_not_visible_if_nobody_asked_for_their_commit(self) -> None:
        assert spoilt((T3[1], None), (T3[2], None)) == {Anomaly.EARLY_READ}

    def test_come_once(self) -> None:
        twice = (*ALL_A, (7, "t3/0"))
        ends = (
            (END, final(COMMITTED, (*IN_A, twice[-1]), IN_B)),
            (
                WHOLE,
                final(UNCOMMITTED, twice, ALL_B),
            ),
        )

        assert spoilt(*ends) == {Anomaly.DUPLICATE, Anomaly.TORN}  # a reader lacked the second

    def test_have_an_offset_of_their_own(self) -> None:
        other = replace(DIRTY, reads=((A, (ALL_A[0], (1, "t3/0"))),))

        assert spoilt((DIRTY, other)) >= {Anomaly.INCONSISTENT, Anomaly.VANISHED}

    def test_stand_where_their_producer_was_told(self) -> None:
        elsewhere = replace(T3[2], sent=((A, 4, "t3/0"),))

        assert spoilt((T3[2], elsewhere)) == {Anomaly.MISPLACED}

    def test_are_those_of_somebody(self) -> None:
        stranger = (9, "nobody/0")
        ends = (
            (END, final(COMMITTED, (*IN_A, stranger), IN_B)),
            (
                WHOLE,
                final(UNCOMMITTED, (*ALL_A, stranger), ALL_B),
            ),
        )

        assert spoilt(*ends) == {Anomaly.UNKNOWN}

    def test_keep_their_order(self) -> None:
        began = replace(T1[0], sends=((A, "t1/1"), (A, "t1/0"), (B, "t1/2")))

        assert spoilt((T1[0], began)) == {Anomaly.REORDERED}


class TestReads:
    def test_of_each_others_writes_are_a_cycle(self) -> None:
        own = poll("group", 36, "t3", b=IN_B[1:])

        assert found((*SOUND, own)) >= {Anomaly.CYCLE}

    def test_of_ones_own_writes_are_a_cycle(self) -> None:
        own = poll("other", 41, "copy", b=IN_B[1:])

        assert Anomaly.CYCLE in found((*SOUND, own))

    def test_inside_a_transaction_do_not_go_back(self) -> None:
        back = spoilt((INSIDE, replace(INSIDE, reads=((A, IN_A[1:2]),))))

        assert back == {Anomaly.BACKWARDS, Anomaly.TAKEN_TWICE, Anomaly.NOT_TAKEN}

    def test_inside_a_transaction_leave_nothing_out(self) -> None:
        gap = spoilt((INSIDE_TOO, replace(INSIDE_TOO, reads=((A, IN_A[2:]),))))

        assert gap == {Anomaly.SKIPPED, Anomaly.NOT_TAKEN}

    def test_from_the_beginning_leave_nothing_out(self) -> None:
        late = replace(FIRST, reads=((A, IN_A[1:2]), (B, IN_B[:1])))

        assert spoilt((FIRST, late)) == {Anomaly.SKIPPED}

    def test_from_the_beginning_do_not_go_back(self) -> None:
        again = replace(SECOND, reads=((A, IN_A[1:]), (B, IN_B[1:])))

        assert spoilt((SECOND, again)) == {Anomaly.BACKWARDS}

    def test_to_the_end_of_a_partition_have_whole_transactions(self) -> None:
        cut = replace(FIRST, reads=((A, IN_A[:1]), (B, IN_B[:1])))
        rest = replace(SECOND, reads=((A, IN_A[1:]), (B, IN_B[1:])))

        assert spoilt((FIRST, cut), (SECOND, rest)) == {Anomaly.TORN}

    def test_at_an_end_that_no_open_transaction_explains_are_torn(self) -> None:
        ended = txn("open", (A, 7), at=50, outcome=Outcome.ABORTED)

        assert found(straddled(*ended)) == {Anomaly.TORN}

    def test_that_a_group_commits_take_a_record_once(self) -> None:
        twice = poll("group", 33, "t3", a=IN_A[:1])

        assert found((*SOUND, twice)) == {Anomaly.TAKEN_TWICE}

    def test_that_a_group_commits_take_every_record(self) -> None:
        assert spoilt((INSIDE, None)) == {Anomaly.NOT_TAKEN}


class TestMoney:
    def test_is_conserved_at_each_version_without_a_transaction(self) -> None:
        assert spoilt((AUDIT, Audited(7, True, 5))) == {Anomaly.MONEY}


class TestProcesses:
    def test_do_not_fail(self) -> None:
        assert found((*SOUND, Failed("copier", "ValueError"))) == {Anomaly.FAILED}

    def test_do_something(self) -> None:
        assert found((final(COMMITTED, (), ()), final(UNCOMMITTED, (), ()))) == {Anomaly.IDLE}

    def test_write_down_what_is_read_again(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "journal")
        for event in SOUND:
            journal.note(event)

        assert load(tmp_path / "journal") == list(SOUND)
