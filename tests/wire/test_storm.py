"""Members that join and leave at random; `make soak` does it for minutes."""

import random
from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from tests.wire.gateways import Client, gateway
from tests.wire.grouping import GroupMember
from tests.wire.storming import GENERATIONS, MOST, RECORDS, Group, joined_at_once, stormed


@pytest.mark.slow
def test_every_record_is_processed_and_no_partition_has_two_owners(tmp_path: Path) -> None:
    group = stormed(tmp_path / "log", seconds=4, rng=random.Random(16))
    every = {(number, offset) for number in range(MOST) for offset in range(RECORDS)}
    assert group.processed == every
    assert (group.doubled, group.fallen) == ([], [])
    assert len(group.sizes) >= GENERATIONS
    committed = AdminClient(tmp_path / "log").list_consumer_group_offsets("storm")
    assert [one and one.offset for one in committed.values()] == [RECORDS] * MOST


def test_members_that_join_at_once_are_all_assigned(tmp_path: Path) -> None:
    group = Group("readers", 5)
    with gateway(tmp_path / "log", group_initial_rebalance_delay_ms=0) as running:
        joined_at_once(group, running.port, 5, most_s=60)
        with Client(running.port) as client:
            assert not group.note(GroupMember(client), [])
    owned = {place for generation, place in group.owners if generation == max(group.sizes)}
    assert owned == set(range(5))


def test_what_must_not_be_is_seen() -> None:
    group = Group("readers", 1)
    group.owners[1, 0] = {"ada", "bob"}
    group.generations = {"ada": [1, 2], "bob": [2, 1], "eve": [3, 3]}
    assert (group.doubled, group.fallen) == ([(1, 0)], ["bob", "eve"])
