from sparklog.errors import CorruptRecordError
from sparklog.tasks import answered
from tests.works import halved


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
