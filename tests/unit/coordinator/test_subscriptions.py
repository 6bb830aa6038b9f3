"""Regular expressions that clients send: they take little memory, however they are written."""

import pytest

from sparklog.coordinator.consumer.subscriptions import (
    EXPRESSION_BYTES_MAX,
    EXPRESSION_MAX,
    compiled,
)

MIB = 2**20


def test_all_that_are_kept_take_a_hundred_mib_at_most() -> None:
    assert compiled.cache_parameters()["maxsize"] * EXPRESSION_BYTES_MAX == 100 * MIB


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("." * (EXPRESSION_MAX + 1), "30001 characters: allowed are 30000"),
        (r"\p{L}{100}", "pattern too large"),
    ],
)
def test_one_that_is_too_large_is_refused(regex: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compiled(regex)


def test_a_long_list_of_topics_is_small_enough() -> None:
    names = [f"department-{number}.orders" for number in range(1_000)]
    assert compiled("|".join(names)).fullmatch(names[-1])
