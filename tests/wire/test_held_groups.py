"""A group exists as soon as a transaction holds offsets for it, as in Kafka."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, ConsumerGroupListing, NewTopic
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.gateways import Client, RunningGateway
from tests.wire.grouping import GroupMember
from tests.wire.requests import body
from tests.wire.test_transaction_steps import end, init, pending


@pytest.fixture
def producer(running: RunningGateway, client: Client) -> Any:
    """A producer whose transaction holds an offset of t-0 for group g."""
    running.server.gateway.admin.create_topics([NewTopic("t", 2)])
    found = init(client)
    assert pending(client, found) == ErrorCode.none
    return found


def listed(client: Client) -> list[tuple[str, str, str, str]]:
    asked = body(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=())
    return [
        (one.group_id, one.protocol_type, one.group_state, one.group_type)
        for one in client.ask(asked).groups
    ]


def described(client: Client) -> Any:
    asked = body(ApiKey.DESCRIBE_GROUPS, 6, groups=("g",), include_authorized_operations=False)
    (found,) = client.ask(asked).groups
    return found.error_code, found.group_state, found.protocol_type, found.members


@pytest.mark.usefixtures("producer")
def test_it_is_listed_and_described_as_a_simple_group(client: Client) -> None:
    assert listed(client) == [("g", "", "Empty", "classic")]
    assert described(client) == (ErrorCode.none, "Empty", "", ())
    asked = body(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=("g",), include_authorized_operations=False
    )
    (found,) = client.ask(asked).groups
    assert found.error_message == "Group g is not a consumer group."


@pytest.mark.parametrize("is_committed", [True, False])
def test_after_the_transaction_it_is_there_if_it_has_the_offset(
    client: Client, producer: Any, is_committed: bool
) -> None:
    end(client, producer, committed=is_committed)
    assert bool(listed(client)) == is_committed
    assert described(client)[1] == ("Empty" if is_committed else "Dead")


@pytest.mark.usefixtures("producer")
def test_a_group_with_members_is_listed_once(client: Client) -> None:
    GroupMember(client, "g").join()
    assert [(name, kind) for name, kind, *_ in listed(client)] == [("g", "consumer")]
    assert described(client)[2] == "consumer"


@pytest.mark.usefixtures("producer")
def test_administrators_see_it_without_a_gateway(running: RunningGateway) -> None:
    admin = AdminClient(running.server.gateway.settings.log_dir)
    assert [one.state for one in admin.describe_consumer_groups(["g"])] == ["Empty"]
    assert admin.list_consumer_groups() == [ConsumerGroupListing("g", "Empty", is_simple=True)]
    admin.delete_consumer_groups(["g"])
    assert admin.list_consumer_groups() == []
