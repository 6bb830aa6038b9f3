"""Parts of a limited size: all items in order, each part as long as the limit allows."""

from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from sparklog.maintenance.parts import parts_of


@given(st.lists(st.integers(0, 9)), st.integers(0, 20))
def test_parts_are_full_and_no_larger_than_the_limit(sizes: list[int], most: int) -> None:
    parts = list(parts_of(sizes, most, lambda size: size))
    assert [*chain(*parts)] == sizes
    assert all(parts)
    assert all(sum(part) <= most or len(part) == 1 for part in parts)
    assert all(sum(one) + other[0] > most for one, other in pairwise(parts))
