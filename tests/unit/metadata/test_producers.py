"""Producers: which batch of one lands, which landed before, and which states are forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import ErrorCode, InvalidProducerEpochError, OutOfOrderSequenceError
from sparklog.metadata.state import producers as p
from sparklog.metadata.state.producers import (
    Duplicate,
    ProducerBatch,
    ProducerMark,
    Producers,
    ProducerState,
    SequencedBatch,
    sequenced,
)
from tests.naive.producers import NaiveProducer

LAST = 2**31 - 1
"""The last sequence before they begin again."""


def batch(first: int, last: int, epoch: int = 0, last_offset: int = 99) -> SequencedBatch:
    return SequencedBatch(7, epoch, first, last, last_offset, 1000)


def after(*batches: SequencedBatch) -> ProducerState:
    """The state after batches that all land."""
    state = None
    for one in batches:
        found = sequenced(state, one)
        assert isinstance(found, ProducerState)
        state = found
    assert state is not None
    return state


class TestSequenced:
    @pytest.mark.parametrize(
        ("before", "then"),
        [
            ([], batch(55, 60, epoch=3)),
            ([batch(0, 4)], batch(5, 5)),
            ([batch(9, LAST)], batch(0, 4)),
            ([batch(LAST - 1, 4)], batch(5, 5)),
            ([batch(7, 9)], batch(0, 2, epoch=1)),
        ],
        ids=["an unknown producer", "the next", "all sequences used", "wrapped", "a new epoch"],
    )
    def test_lands(self, before: list[SequencedBatch], then: SequencedBatch) -> None:
        assert after(*before, then).batches[-1] == ProducerBatch(*then[2:])

    @pytest.mark.parametrize(
        ("then", "why"),
        [
            (batch(11, 12), "sequence 11 where 10 is next"),
            (batch(0, 2), "sequence 0 where 10 is next"),
            (batch(7, 8), "sequence 7 where 10 is next"),
            (batch(10, 12, epoch=1), "sequence 10 where 0 is next"),
        ],
        ids=["a gap", "too old", "other borders", "a new epoch goes on"],
    )
    def test_is_out_of_order(self, then: SequencedBatch, why: str) -> None:
        with pytest.raises(OutOfOrderSequenceError, match=why) as refused:
            sequenced(after(batch(7, 9)), then)

        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_an_old_epoch_is_fenced(self) -> None:
        with pytest.raises(InvalidProducerEpochError, match="epoch 1 now") as refused:
            sequenced(after(batch(7, 9, epoch=1)), batch(10, 11, epoch=0))

        assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_a_state_without_batches_begins_with_sequence_0(self) -> None:
        """Kafka 4.1.1's ProducerAppendInfo says so for a producer that only wrote markers."""
        marked = ProducerState(7, 2)

        assert isinstance(sequenced(marked, batch(0, 3, epoch=2)), ProducerState)
        with pytest.raises(OutOfOrderSequenceError):
            sequenced(marked, batch(5, 6, epoch=2))

    def test_one_of_the_last_five_landed_before(self) -> None:
        state = after(*(batch(at, at, last_offset=100 + at) for at in range(6)))

        assert sequenced(state, batch(1, 1)) == Duplicate(101, 1000)
        with pytest.raises(OutOfOrderSequenceError):
            sequenced(state, batch(0, 0))

    def test_a_wrapped_one_landed_before_at_its_first_offset(self) -> None:
        state = after(batch(LAST - 1, 2, last_offset=14))

        assert sequenced(state, batch(LAST - 1, 2)) == Duplicate(10, 1000)

    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 3), st.integers(0, 3))))
    def test_the_twin_says_the_same(self, sent: list[tuple[int, int, int]]) -> None:
        """Goal: the rule holds for any history. Method: batches around the next one, wrapping."""
        twin, state, end = NaiveProducer(), None, 0
        next_sequence = 2**31 - 5
        for epoch, gap, more in sent:
            first = (next_sequence + min(gap, 0)) % 2**31 if gap < 3 else 0
            one = SequencedBatch(7, epoch, first, (first + more) % 2**31, end + more, end)
            told = twin.send(one)
            try:
                found = sequenced(state, one)
            except InvalidProducerEpochError:
                assert told == "epoch"
            except OutOfOrderSequenceError:
                assert told == "sequence"
            else:
                if isinstance(found, Duplicate):
                    assert told == found.first_offset
                    continue
                assert told == found.batches[-1].first_offset
                state, end = found, end + more + 1
                next_sequence = (first + more + 1) % 2**31


def states(*ids: int) -> list[ProducerState]:
    return [ProducerState(one, 0) for one in ids]


class TestForgetting:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(p, "PRODUCERS_MAX", 20)

    def test_the_oldest_tenth_goes_when_there_are_too_many(self) -> None:
        full = Producers().after([(states(*range(10)), 1), (states(*range(10, 20)), 2)])
        more = full.after([(states(0), 3), (states(77), 4)])

        assert sorted(set(full.states) - set(more.states)) == [1, 2, 3]
        assert more.mark == ProducerMark(1, 4)

    def test_a_mark_fits_an_int64_whatever_the_ids_are(self) -> None:
        used = [(states(0, 1, 2**63 - 1), 1), (states(*range(10, 27)), 2), (states(77), 3)]
        left = Producers().after(used)

        assert sorted(left.states) == [*range(10, 27), 77]
        assert left.mark == ProducerMark(2, 10)

    def test_what_is_used_in_this_millisecond_stays(self) -> None:
        many = Producers().after([(states(*range(30)), 1)])

        assert len(many.states) == 30
        assert len(many.after([(states(99), 2)]).states) == 18

    def test_a_mark_never_goes_back(self) -> None:
        known = Producers().after([(states(1), 5), (states(2), 7)]).since(ProducerMark(6))

        assert list(known.states) == [2]
        assert known.since(ProducerMark(1)) is known
