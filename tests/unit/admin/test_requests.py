"""How many requests to a store a call over many topics makes: as many as over one."""

from collections.abc import Callable, Sequence

import pytest

from sparklog.admin import AdminClient
from sparklog.coordinator.commits.offset_checks import check_offsets
from sparklog.coordinator.requests import CommittedOffset
from sparklog.metadata.catalog import Catalog
from sparklog.model import LATEST, TopicPartition
from tests.logs import client
from tests.opening import folded, requests_for

Call = Callable[[AdminClient, Sequence[str]], object]

CALLS: dict[str, Call] = {
    "list_offsets": lambda admin, names: admin.list_offsets({(one, 0): LATEST for one in names}),
    "describe_topics": lambda admin, names: admin.describe_topics(names),
    "delete_topics": lambda admin, names: admin.delete_topics(names),
    "delete_records": lambda admin, names: admin.delete_records({(one, 0): 0 for one in names}),
}


@pytest.mark.parametrize("name", CALLS)
def test_many_topics_cost_no_more_requests_than_one(name: str) -> None:
    def requests(count: int) -> int:
        files = folded(count)
        names = [f"t{number}" for number in range(count)]
        return requests_for(files, lambda: CALLS[name](client(files), names))

    assert requests(9) == requests(1)


def test_offsets_of_many_topics_are_checked_by_as_many_requests_as_of_one() -> None:
    def requests(count: int) -> int:
        files = folded(count)
        offsets = {TopicPartition(f"t{number}", 0): CommittedOffset(0) for number in range(count)}
        return requests_for(files, lambda: check_offsets(Catalog(files), "g", offsets))

    assert requests(9) == requests(1)
