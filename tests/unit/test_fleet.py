import pytest

from sparklog.errors import CorruptRecordError
from sparklog.fleet import LocalFleet, answered
from tests.works import by_parity, digits, halved, smallest, summed


def chained(work: int) -> int:
    """Fail as one that met another error."""
    try:
        return work // 0
    except ZeroDivisionError as error:
        raise CorruptRecordError(f"{work} is odd") from error


class TestAnswered:
    def test_is_the_answer_or_the_error(self) -> None:
        assert answered(halved, 4) == 2
        assert isinstance(answered(halved, 3), CorruptRecordError)

    def test_an_error_holds_no_frames(self) -> None:
        error = answered(chained, 3)

        assert isinstance(error, CorruptRecordError)
        assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)


class TestMap:
    def test_answers_in_the_order_of_the_works(self) -> None:
        assert LocalFleet().map(halved, [4, 2, 50], "halves") == [2, 1, 25]
        assert LocalFleet().map(halved, [], "halves") == []

    def test_an_error_is_the_answer_of_its_own_work(self) -> None:
        first, second = LocalFleet().map(halved, [3, 4], "halves")

        assert (str(first), second) == ("3 is odd", 2)
        assert isinstance(first, CorruptRecordError)

    def test_threads_answer_the_same(self) -> None:
        first, second = LocalFleet(threads=2).map(halved, [3, 4], "halves")

        assert (str(first), second) == ("3 is odd", 2)

    def test_a_bug_is_raised(self) -> None:
        with pytest.raises(ZeroDivisionError):
            LocalFleet().map(halved, [0], "halves")


class TestShuffle:
    def test_sends_all_values_of_a_number_to_one_reducer(self) -> None:
        answers = LocalFleet().shuffle(digits, [21, 13, 35], smallest, 10, "digits")

        assert sorted(map(str, answers.view(tuple))) == ["(1, 13)", "(2, 21)", "(3, 13)", "(5, 35)"]

    def test_an_error_is_the_answer_of_its_own_reducer(self) -> None:
        first, second = LocalFleet().shuffle(digits, [19], smallest, 10, "digits").view(tuple)

        assert (first, str(second)) == ((1, 19), "nine")

    def test_an_error_of_a_mapper_is_raised(self) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            LocalFleet().shuffle(digits, [1, -1], smallest, 10, "digits")

    def test_asks_no_reducer_without_a_value(self) -> None:
        assert LocalFleet().shuffle(digits, [], smallest, 10, "digits").view(str) == []


class TestJoin:
    def test_gives_each_work_the_pieces_that_are_sent_to_it(self) -> None:
        answers = LocalFleet().shuffle(digits, [21, 13, 359], smallest, 10, "digits")
        joined = answers.join(summed, [100, 200, 300], by_parity, "sums")

        assert joined == [100, 200 + 21, 300 + 13 + 13 + 359]
        answers.close()

    def test_an_error_is_the_answer_of_its_own_work(self) -> None:
        answers = LocalFleet().shuffle(digits, [2, 13], smallest, 10, "digits")
        first, second = answers.join(summed, [-1, 7], by_parity, "sums")

        assert (str(first), second) == ("-1 is negative", 9)
