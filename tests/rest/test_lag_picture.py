"""The coordinates of the picture of a lag."""

from sparklog.admin.lag_history import LagPoint
from sparklog.rest.lag_picture import picture


def drawn(*lags: int | None) -> list[str]:
    found = picture([LagPoint(at, lag) for at, lag in enumerate(lags)])
    lines: list[str] = [] if found is None else found["lines"]
    return lines


def test_the_largest_lag_is_at_the_top_and_now_to_the_right() -> None:
    assert drawn(0, 5, 10) == ["0,100 300,50 600,0"]


def test_without_a_lag_the_line_is_at_the_bottom() -> None:
    assert drawn(0, 0) == ["0,100 600,100"]


def test_a_line_ends_where_nothing_is_known() -> None:
    assert drawn(1, None, 1, 1, None) == ["0,0", "300,0 450,0"]


def test_of_nothing_there_is_no_picture() -> None:
    assert picture([LagPoint(0, None)]) is None


def test_it_tells_the_lag_of_now_and_its_times() -> None:
    found = picture([LagPoint(7, 3), LagPoint(9, 1), LagPoint(11, None)])
    assert found is not None
    assert (found["most"], found["now"], found["first_ms"], found["last_ms"]) == (3, 1, 7, 11)
