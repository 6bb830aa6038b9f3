"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from pydantic import SecretStr

from sparklog.admin import AdminClient, NewTopic
from sparklog.config import TOPIC_CONFIG_KEYS, ConfigType, TopicConfig
from sparklog.tokens import Grant, Principal, Scope
from sparklog.wire.broker_configs import _text, _type, broker_configs
from sparklog.wire.configs import BROKER, SYNONYMS, TOPIC
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.settings import Settings
from tests.wire.gateways import Client, RunningGateway, check_others_are_answered, gateway
from tests.wire.requests import SOON, body, newest, part, versions
from tests.wire.test_topics import CREATE, new

DESCRIBE, ALTER = ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS
INCREMENTAL = ApiKey.INCREMENTAL_ALTER_CONFIGS
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC, STATIC, DEFAULT = 1, 4, 5


@pytest.fixture
def admin(running: RunningGateway) -> AdminClient:
    found = running.server.gateway.admin
    found.create_topics([NewTopic("flights", 1, {"retention.ms": "5", "segment.ms": "7"})])
    return found


def wanted(
    kind: int, name: str, keys: Sequence[str] | None = None, version: int = newest(DESCRIBE)
) -> Any:
    fields = {"resource_type": kind, "resource_name": name}
    fields["configuration_keys"] = None if keys is None else tuple(keys)
    return part(DESCRIBE, version, "DescribeConfigsResource", **fields)


ALL = body(
    DESCRIBE,
    newest(DESCRIBE),
    resources=(wanted(TOPIC, "flights"), wanted(BROKER, "0"), wanted(TOPIC, "flights")),
    include_synonyms=False,
    include_documentation=False,
)


def describe(
    client: Client,
    kind: int,
    name: str,
    keys: Sequence[str] | None = None,
    version: int = newest(DESCRIBE),
    *,
    told: bool = True,
) -> Any:
    resource = wanted(kind, name, keys, version)
    flags = {"include_synonyms": told, "include_documentation": told}
    [found] = client.ask(body(DESCRIBE, version, resources=(resource,), **flags)).results
    assert (found.resource_type, found.resource_name) == (kind, name)
    return found


def by_name(found: Any) -> dict[str, Any]:
    return {one.name: one for one in found.configs}


def synonyms(config: Any) -> list[tuple[str, str, int]]:
    return [(one.name, one.value, one.source) for one in config.synonyms]


class TestDescribeConfigsOfATopic:
    @pytest.mark.usefixtures("admin")
    @pytest.mark.parametrize("version", versions(DESCRIBE))
    def test_tells_all(self, client: Client, version: int) -> None:
        found = by_name(describe(client, TOPIC, "flights", version=version))
        assert list(found) == list(TOPIC_CONFIG_KEYS)
        assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5", DYNAMIC)
        assert found["segment.bytes"].config_source == DEFAULT
        assert not any(one.read_only or one.is_sensitive for one in found.values())
        if version >= 3:
            assert found["retention.ms"].config_type == 5
            assert all(one.documentation for one in found.values())

    @pytest.mark.usefixtures("admin")
    def test_tells_where_a_value_comes_from(self, client: Client, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("b", 1, {"segment.bytes": "1048576"})])
        found = by_name(describe(client, TOPIC, "b"))
        assert synonyms(found["segment.bytes"]) == [
            ("segment.bytes", "1048576", DYNAMIC),
            ("log.segment.bytes", "1073741824", DEFAULT),
        ]
        assert synonyms(found["max.message.bytes"]) == [("message.max.bytes", "1048588", DEFAULT)]
        assert synonyms(found["retention.ms"]) == []

    @pytest.mark.usefixtures("admin")
    def test_tells_what_was_asked_for(self, client: Client) -> None:
        keys = ["segment.ms", "nothing"]
        [found] = describe(client, TOPIC, "flights", keys, told=False).configs
        assert (found.name, found.value) == ("segment.ms", "7")
        assert (found.synonyms, found.documentation) == ((), None)
        assert len(describe(client, TOPIC, "flights", []).configs) == len(TOPIC_CONFIG_KEYS)

    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (TOPIC, "nowhere", ErrorCode.unknown_topic_or_partition),
            (TOPIC, "no/good", ErrorCode.invalid_topic_exception),
            (BROKER, "7", ErrorCode.invalid_request),
            (BROKER, "x", ErrorCode.invalid_request),
            (8, "0", ErrorCode.invalid_request),
        ],
    )
    def test_refuses(self, client: Client, kind: int, name: str, code: ErrorCode) -> None:
        found = describe(client, kind, name)
        assert (found.error_code, found.configs) == (code, ())


@pytest.mark.usefixtures("admin")
def test_a_resource_that_comes_twice_is_described_once(client: Client) -> None:
    assert [one.resource_name for one in client.ask(ALL).results] == ["flights", "0"]


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(
    "asked",
    [ALL, body(CREATE, newest(CREATE), topics=(new("a"),), timeout=SOON, validate_only=True)],
)
def test_other_clients_do_not_wait_for_configs(
    running: RunningGateway, client: Client, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = TopicConfig, "describe"
    check_others_are_answered(running, monkeypatch, slow, lambda: client.send(asked))
    assert client.receive(asked.__api_key__, asked.__version__)


@pytest.mark.usefixtures("admin")
def test_lookups_do_not_wait_for_configs(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, describe = Barrier(3), Event(), TopicConfig.describe

    def stands_still(config: TopicConfig) -> Any:
        if not may_end.is_set():
            begun.wait(10)
        may_end.wait(10)
        return describe(config)

    monkeypatch.setattr(TopicConfig, "describe", stands_still)
    with Client(running.port) as other:
        for one in (client, other):
            one.send(ALL)
        begun.wait(10)
        try:
            assert running.begin(running.server.gateway.lookup(lambda: "found")).result(5)
        finally:
            may_end.set()
        for one in (client, other):
            assert one.receive(ALL.__api_key__, ALL.__version__).results


class TestListConfigResources:
    @pytest.fixture
    def asked(self, client: Client, admin: AdminClient) -> Callable[..., Any]:
        admin.create_topics([NewTopic("b", 1)])
        key = ApiKey.LIST_CONFIG_RESOURCES
        return lambda *kinds, version=1: client.ask(body(key, version, resource_types=kinds))

    @pytest.mark.parametrize(
        ("kinds", "expected"),
        [
            ((), [(TOPIC, "b"), (TOPIC, "flights"), (BROKER, "0")]),
            ((TOPIC,), [(TOPIC, "b"), (TOPIC, "flights")]),
            ((BROKER, 8), [(BROKER, "0")]),
            ((16, 32), []),
        ],
    )
    def test_tells_topics_and_brokers(
        self, asked: Callable[..., Any], kinds: tuple[int, ...], expected: list[tuple[int, str]]
    ) -> None:
        found = asked(*kinds).config_resources
        assert [(one.resource_type, one.resource_name) for one in found] == expected

    def test_knows_no_other_types(self, asked: Callable[..., Any]) -> None:
        found = asked(TOPIC, 3)
        assert (found.error_code, found.config_resources) == (ErrorCode.unsupported_version, ())

    def test_of_version_0_asks_for_client_metrics(self, asked: Callable[..., Any]) -> None:
        assert asked(version=0).config_resources == ()


class TestDescribeConfigsOfABroker:
    def test_tells_its_settings(self, tmp_path: Path) -> None:
        with (
            gateway(tmp_path / "log", num_partitions=4, node_id=3) as running,
            Client(running.port) as client,
        ):
            found = by_name(describe(client, BROKER, "3"))
        assert found["node.id"].value == "3"
        assert found["log.dirs"].value == str(tmp_path / "log")
        assert found["auto.create.topics.enable"].value == "false"
        assert synonyms(found["num.partitions"]) == [
            ("num.partitions", "4", STATIC),
            ("num.partitions", "1", DEFAULT),
        ]
        assert found["broker.rack"].value is None
        assert all(one.read_only for one in found.values())

    def test_tells_the_defaults_of_topic_configs(self, client: Client) -> None:
        found = by_name(describe(client, BROKER, "0"))
        assert set(SYNONYMS.values()) <= set(found)
        assert found["log.segment.bytes"].value == "1073741824"
        assert found["log.segment.bytes"].config_source == DEFAULT

    def test_nothing_is_set_for_all_brokers(self, client: Client) -> None:
        found = describe(client, BROKER, "")
        assert (found.error_code, found.configs) == (ErrorCode.none, ())

    def test_types_are_those_of_the_settings(self) -> None:
        found = {
            one.name: one.type
            for one in broker_configs(Settings.model_validate({"log_dir": "a"}), 0)
        }
        assert found["listeners"] is ConfigType.LIST
        assert found["auto.create.topics.enable"] is ConfigType.BOOLEAN
        assert found["num.partitions"] is found["node.id"] is ConfigType.INT
        assert found["broker.rack"] is ConfigType.STRING

    def test_a_secret_is_not_told(self) -> None:
        assert _text(SecretStr("x")) is None
        assert _type(SecretStr) is ConfigType.STRING


class TestAlterConfigs:
    def alter(
        self,
        client: Client,
        name: str,
        values: Mapping[str, str | None],
        kind: int = TOPIC,
        version: int = newest(ALTER),
        *,
        validate_only: bool = False,
    ) -> Any:
        configs = [
            part(ALTER, version, "AlterableConfig", name=key, value=value)
            for key, value in values.items()
        ]
        wanted = {"resource_type": kind, "resource_name": name, "configs": tuple(configs)}
        resource = part(ALTER, version, "AlterConfigsResource", **wanted)
        asked = body(ALTER, version, resources=(resource,), validate_only=validate_only)
        [found] = client.ask(asked).responses
        assert (found.resource_type, found.resource_name) == (kind, name)
        return found.error_code

    @pytest.mark.parametrize("version", versions(ALTER))
    def test_replaces_all(self, client: Client, admin: AdminClient, version: int) -> None:
        values = {"cleanup.policy": "compact"}
        assert self.alter(client, "flights", values, version=version) == ErrorCode.none
        assert admin.describe_topics()[0].configs == values

    def test_validate_only_changes_nothing(self, client: Client, admin: AdminClient) -> None:
        assert self.alter(client, "flights", {}, validate_only=True) == ErrorCode.none
        assert len(admin.describe_topics()[0].configs) == 2

    @pytest.mark.parametrize(
        ("kind", "name", "values", "code"),
        [
            (TOPIC, "flights", {"retention.ms": "x"}, ErrorCode.invalid_config),
            (TOPIC, "flights", {"retention.ms": None}, ErrorCode.invalid_request),
            (TOPIC, "nowhere", {}, ErrorCode.unknown_topic_or_partition),
            (BROKER, "0", {"num.partitions": "2"}, ErrorCode.invalid_request),
        ],
    )
    def test_refuses(
        self,
        client: Client,
        admin: AdminClient,
        kind: int,
        name: str,
        values: Mapping[str, str | None],
        code: ErrorCode,
    ) -> None:
        assert self.alter(client, name, values, kind) == code
        assert len(admin.describe_topics()[0].configs) == 2


Op = tuple[str, int, str | None]


class TestIncrementalAlterConfigs:
    def alter(
        self,
        client: Client,
        name: str,
        *ops: Op,
        kind: int = TOPIC,
        version: int = newest(INCREMENTAL),
        validate_only: bool = False,
    ) -> Any:
        configs = [
            part(
                INCREMENTAL,
                version,
                "AlterableConfig",
                name=key,
                config_operation=op,
                value=value,
            )
            for key, op, value in ops
        ]
        wanted = {"resource_type": kind, "resource_name": name, "configs": tuple(configs)}
        resource = part(INCREMENTAL, version, "AlterConfigsResource", **wanted)
        asked = body(INCREMENTAL, version, resources=(resource,), validate_only=validate_only)
        [found] = client.ask(asked).responses
        return found.error_code

    @pytest.mark.parametrize("version", versions(INCREMENTAL))
    def test_changes_some(self, client: Client, admin: AdminClient, version: int) -> None:
        ops: list[Op] = [("retention.ms", SET, "9"), ("segment.ms", DELETE, None)]
        ops.append(("cleanup.policy", APPEND, "compact"))
        assert self.alter(client, "flights", *ops, version=version) == ErrorCode.none
        found = admin.describe_topics()[0].configs
        assert found == {"retention.ms": "9", "cleanup.policy": "delete,compact"}

    def test_deletes_what_no_topic_has(self, client: Client, admin: AdminClient) -> None:
        """MirrorMaker 2 does, for configs of an older cluster."""
        ops: list[Op] = [("message.format.version", DELETE, None), ("segment.ms", DELETE, None)]
        assert self.alter(client, "flights", *ops) == ErrorCode.none
        assert "segment.ms" not in admin.describe_topics()[0].configs
        assert self.alter(client, "flights", ops[0]) == ErrorCode.none

    def test_validate_only_changes_nothing(self, client: Client, admin: AdminClient) -> None:
        op = ("retention.ms", SET, "9")
        assert self.alter(client, "flights", op, validate_only=True) == ErrorCode.none
        assert admin.describe_topics()[0].configs["retention.ms"] == "5"

    @pytest.mark.parametrize(
        ("ops", "code"),
        [
            ([("retention.ms", SET, "x")], ErrorCode.invalid_config),
            ([("message.format.version", SET, "3.0")], ErrorCode.invalid_config),
            ([("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
            ([("retention.ms", 9, "1")], ErrorCode.invalid_request),
            ([("retention.ms", SET, None)], ErrorCode.invalid_request),
            ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.invalid_request),
            ([("sparklog.partitioner", SET, "os:system")], ErrorCode.invalid_config),
        ],
    )
    def test_refuses(
        self, client: Client, admin: AdminClient, ops: list[Op], code: ErrorCode
    ) -> None:
        assert self.alter(client, "flights", *ops) == code
        assert admin.describe_topics()[0].configs["retention.ms"] == "5"

    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (TOPIC, "nowhere", ErrorCode.unknown_topic_or_partition),
            (TOPIC, "no/good", ErrorCode.invalid_topic_exception),
            (BROKER, "0", ErrorCode.invalid_request),
            (BROKER, "", ErrorCode.invalid_request),
            (99, "a", ErrorCode.invalid_request),
        ],
    )
    def test_refuses_a_resource(
        self, client: Client, kind: int, name: str, code: ErrorCode
    ) -> None:
        assert self.alter(client, name, ("retention.ms", SET, "1"), kind=kind) == code


@pytest.mark.usefixtures("admin")
def test_what_may_not_be_seen_or_administered_is_denied(
    running: RunningGateway, client: Client
) -> None:
    describe(client, TOPIC, "flights")
    [connection] = running.server.gateway.connections
    grants = (Grant(prefix="flights", scopes=frozenset({Scope.READ})),)
    connection.session.principal = Principal(name="me", grants=grants)
    assert describe(client, TOPIC, "flights").error_code == ErrorCode.none
    assert describe(client, TOPIC, "other").error_code == ErrorCode.topic_authorization_failed
    assert describe(client, BROKER, "0").error_code == ErrorCode.cluster_authorization_failed
    alter, op = TestIncrementalAlterConfigs().alter, ("retention.ms", SET, "1")
    assert alter(client, "flights", op) == ErrorCode.topic_authorization_failed
    assert alter(client, "0", op, kind=BROKER) == ErrorCode.cluster_authorization_failed
