"""Every API answers a client without grants with its code of authorization."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.tokens import Principal
from sparklog.wire.versions import APIS, ApiKey
from tests.wire.gateways import Client, RunningGateway, request
from tests.wire.test_metadata import topics_asked
from tests.wire.test_produce import produce_request

TOPIC = "flights"
OPEN_TO_ALL = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
"""APIs that ask nobody: what they tell belongs to no resource."""


def produced(client: Client) -> Any:
    return client.ask(produce_request(9, TOPIC, (0, b""))).responses[0].partition_responses[0]


def described(client: Client) -> Any:
    return client.ask(topics_asked(12, TOPIC)).topics[0]


def producer_id(client: Client, transactional_id: str | None) -> Any:
    from datetime import timedelta

    from kio.static.primitive import i32Timedelta

    fields: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1}
    timeout = i32Timedelta.parse(timedelta(seconds=1))
    fields |= {"transactional_id": transactional_id, "transaction_timeout": timeout}
    return client.ask(request(ApiKey.INIT_PRODUCER_ID, 4, **fields))


ASKED: dict[ApiKey, list[tuple[Callable[[Client], Any], ErrorCode]]] = {
    ApiKey.PRODUCE: [(produced, ErrorCode.topic_authorization_failed)],
    ApiKey.METADATA: [(described, ErrorCode.topic_authorization_failed)],
    ApiKey.INIT_PRODUCER_ID: [
        (lambda client: producer_id(client, None), ErrorCode.cluster_authorization_failed),
        (
            lambda client: producer_id(client, "t"),
            ErrorCode.transactional_id_authorization_failed,
        ),
    ],
}
CASES = [(key, *case) for key, cases in ASKED.items() for case in cases]


@pytest.mark.parametrize(("key", "ask", "code"), CASES)
@pytest.mark.parametrize("is_there", [True, False])
def test_refuses_a_client_without_grants(
    running: RunningGateway,
    monkeypatch: pytest.MonkeyPatch,
    key: ApiKey,
    ask: Callable[[Client], Any],
    code: ErrorCode,
    is_there: bool,
) -> None:
    if is_there:
        running.server.gateway.admin.create_topics([NewTopic(TOPIC, 1)])
    monkeypatch.setattr("sparklog.wire.session.EVERYBODY", Principal(name="nobody", grants=()))
    with Client(running.port) as client:
        assert ask(client).error_code == code


def test_every_api_is_asked() -> None:
    assert set(ASKED) | OPEN_TO_ALL == set(APIS)
