"""AdminClient takes any integers, also numpy's, and refuses everything else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import UsageError
from sparklog.model import TopicPartition
from sparklog.testing import TemporaryLogDir

ZERO, TWO = np.int64(0), np.int32(2)
T0: Any = ("t", ZERO)
"""A partition as a DataFrame names it."""


@pytest.fixture
def admin(tmp_path: Path) -> AdminClient:
    """Of a log dir whose topic t has three records in its one partition."""
    log_dir = TemporaryLogDir(tmp_path / "log")
    log_dir.topic("t").produce("a", "b", "c")
    return log_dir.admin


def test_counts_of_partitions(admin: AdminClient) -> None:
    count: Any = TWO
    assert admin.create_topics([NewTopic("u", count)])[0].num_partitions == 2
    assert admin.create_partitions({"t": count})[0].num_partitions == 2


def test_offsets_to_delete_before(admin: AdminClient) -> None:
    offset: Any = TWO
    assert admin.delete_records({T0: offset}) == {("t", 0): 2}


def test_times_to_look_up(admin: AdminClient) -> None:
    latest: Any = np.int64(-1)
    assert admin.list_offsets({T0: latest})[TopicPartition("t", 0)].offset == 3


def test_a_partition_whose_indexes_are_made_anew(admin: AdminClient) -> None:
    (mended,) = admin.rebuild_indexes(*T0)
    assert mended.partition == 0
    text: Any = "0"
    with pytest.raises(UsageError, match="topic 't', partition: '0' is no integer"):
        admin.rebuild_indexes("t", text)


def test_offsets_of_a_group(admin: AdminClient) -> None:
    offset: Any = TWO
    for given in (CommittedOffset(offset, metadata="m"), offset):
        admin.alter_consumer_group_offsets("g", {T0: given})
        (found,) = admin.list_consumer_group_offsets("g", [T0]).values()
        assert found is not None
        assert (found.offset, type(found.offset)) == (2, int)
        assert found.metadata == ("m" if isinstance(given, CommittedOffset) else "")
    admin.delete_consumer_group_offsets("g", [T0])
    assert admin.list_consumer_group_offsets("g") == {}


CALLS: dict[str, tuple[Callable[[AdminClient, Any], object], str]] = {
    "create_topics": (lambda admin, n: admin.create_topics([NewTopic("u", n)]), "'u', partitions"),
    "create_partitions": (lambda admin, n: admin.create_partitions({"t": n}), "'t', partitions"),
    "delete_records": (lambda admin, n: admin.delete_records({("t", 0): n}), "'t', partition 0"),
    "list_offsets": (lambda admin, n: admin.list_offsets({("t", n): -1}), "'t', partition"),
    "alter_consumer_group_offsets": (
        lambda admin, n: admin.alter_consumer_group_offsets("g", {("t", 0): n}),
        "'t', partition 0",
    ),
}
"""Calls with a number, and the place that the error names."""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("given", ["1", 1.0, None, True])
def test_no_integers(admin: AdminClient, call: str, given: object) -> None:
    do, where = CALLS[call]
    with pytest.raises(UsageError, match=f"topic {where}: {given!r} is no integer"):
        do(admin, given)
