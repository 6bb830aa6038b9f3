"""The protocols of listeners: who authenticates, and who may reach a listener where nobody does."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient as KafkaAdmin
from confluent_kafka.admin import NewTopic as KafkaTopic
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.errors import InvalidOptionError
from sparklog.metadata.history.read import history
from sparklog.wire.serving import listeners
from sparklog.wire.serving.listeners import Bound, bind, bound_to
from sparklog.wire.settings import Settings
from tests.rest.tokens import token_file
from tests.wire.gateways import Client, RunningGateway, certificate_in, gateway
from tests.wire.test_metadata import topics_asked
from tests.wire.test_sasl import TOKEN, secured_file, seen, shaken, shown

TOKENS = {"tokens_file": "t"}
CERTIFICATE = {"ssl_certificate_file": "c", "ssl_key_file": "k"}
LOOPBACK = "127.0.0.1:0"
BEYOND = ("0.0.0.0:0", "10.0.0.7:0", "[::]:0", "[::ffff:0.0.0.0]:0", "[::ffff:10.0.0.7]:0", "0:0")


def bound(*texts: str, **values: object) -> list[Bound]:
    """Listeners whose sockets are closed again."""
    found = bind(Settings.model_validate({"log_dir": "log", "listen": texts, **values}))
    for one in found:
        one.socket.close()
    return found


class TestAListener:
    @pytest.mark.parametrize(
        ("text", "values", "expected"),
        [
            (LOOPBACK, {}, ("PLAINTEXT", False, False)),
            (LOOPBACK, TOKENS, ("SASL_PLAINTEXT", False, True)),
            (f"plaintext://{LOOPBACK}", TOKENS, ("PLAINTEXT", False, False)),
            (f"SSL://{LOOPBACK}", TOKENS, ("SSL", True, False)),
            (f"Ssl://{LOOPBACK}", {}, ("SSL", True, False)),
            (f"SASL_PLAINTEXT://{LOOPBACK}", TOKENS, ("SASL_PLAINTEXT", False, True)),
            (f"sasl_ssl://{LOOPBACK}", TOKENS, ("SASL_SSL", True, True)),
        ],
    )
    def test_has_the_protocol_that_it_names(
        self, text: str, values: dict[str, object], expected: tuple[str, bool, bool]
    ) -> None:
        [(found, _)] = bound(text, **values, **CERTIFICATE)
        assert (found.name, found.is_tls, found.has_sasl) == expected

    def test_is_numbered_among_those_of_its_protocol(self) -> None:
        schemes = ("SASL_SSL://", "SSL://", "sasl_ssl://", "", "SASL_PLAINTEXT://", "PLAINTEXT://")
        found = bound(*(scheme + LOOPBACK for scheme in schemes), **TOKENS, **CERTIFICATE)
        names = ["SASL_SSL", "SSL", "SASL_SSL-2"]
        names += ["SASL_PLAINTEXT", "SASL_PLAINTEXT-2", "PLAINTEXT"]
        assert [one.listener.name for one in found] == names

    @pytest.mark.parametrize(
        ("text", "values", "told"),
        [
            (f"SASL_SCRAM://{LOOPBACK}", {}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL$"),
            (f"://{LOOPBACK}", {}, r"\[PROTOCOL://\]HOST:PORT"),
            (f"SASL_PLAINTEXT://{LOOPBACK}", {}, "SASL_PLAINTEXT needs --tokens-file"),
            (f"sasl_ssl://{LOOPBACK}", CERTIFICATE, "SASL_SSL needs --tokens-file"),
            (f"SASL_SSL://{LOOPBACK}", TOKENS, "TLS needs --ssl-certificate-file"),
        ],
    )
    def test_needs_what_its_protocol_needs(
        self, text: str, values: dict[str, object], told: str
    ) -> None:
        with pytest.raises(InvalidOptionError, match=told):
            bound(text, **values)


class TestWithoutAuthentication:
    @pytest.mark.parametrize("address", BEYOND)
    @pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
    def test_nobody_comes_from_another_machine(self, protocol: str, address: str) -> None:
        with pytest.raises(InvalidOptionError, match=f"allowed is SASL_{protocol}:// with"):
            bound(f"{protocol}://{address}", **TOKENS, **CERTIFICATE, advertise=("a:1",))

    @pytest.mark.parametrize("address", BEYOND)
    def test_nobody_comes_by_the_bootstrap_address(self, address: str) -> None:
        with pytest.raises(InvalidOptionError, match="^--bootstrap: .* SASL_PLAINTEXT://"):
            bound(f"PLAINTEXT://{LOOPBACK}", bootstrap=address, **TOKENS)

    def test_the_bootstrap_listener_is_as_the_first_one(self) -> None:
        found = bound(LOOPBACK, f"PLAINTEXT://{LOOPBACK}", bootstrap="0.0.0.0:0", **TOKENS)
        assert [one.listener.has_sasl for one in found] == [True, False, True]

    def test_a_name_that_is_another_address_is_none_of_loopback(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: a wrong line in /etc/hosts opens nothing."""
        found: list[socket.socket] = []

        def elsewhere(_: str, port: int, *, is_shared: bool) -> socket.socket:
            found.append(bound_to("0.0.0.0", port, is_shared=is_shared))
            return found[0]

        monkeypatch.setattr(listeners, "bound_to", elsewhere)
        with pytest.raises(InvalidOptionError, match=r"host 0\.0\.0\.0 listens beyond"):
            bound("localhost:0", advertise=("a:1",))
        assert found[0].fileno() == -1


@pytest.fixture
def both(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway whose first listener authenticates, with TLS, and whose second one does not."""
    given = {"tokens_file": secured_file(tmp_path), **certificate_in(tmp_path)}
    listen = (f"SASL_SSL://{LOOPBACK}", f"PLAINTEXT://{LOOPBACK}")
    with gateway(tmp_path / "log", listen=listen, **given) as running:
        yield running


def librdkafka(running: RunningGateway, number: int, **config: str) -> KafkaAdmin:
    """A client of a listener; `config` has underscores for dots."""
    address = f"127.0.0.1:{running.server.listeners[number].port}"
    given = {key.replace("_", "."): value for key, value in config.items()}
    return KafkaAdmin({"bootstrap.servers": address, "log_level": 0, **given})


def anonymous(running: RunningGateway) -> Client:
    return Client(running.server.listeners[1].port)


def with_tls(client: Client, folder: Path) -> Client:
    context = ssl.create_default_context(cafile=str(folder / "c.pem"))
    client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client


class TestSaslBesidePlaintext:
    def test_serves_clients_of_both(self, both: RunningGateway, tmp_path: Path) -> None:
        """Goal: each gets the address of its own listener; the history names who is known."""
        secured = {"security_protocol": "SASL_SSL", "ssl_ca_location": str(tmp_path / "c.pem")}
        secured |= {"sasl_mechanisms": "PLAIN", "sasl_username": TOKEN, "sasl_password": TOKEN}
        clients = [librdkafka(both, 0, **secured), librdkafka(both, 1)]
        for client, name in zip(clients, ("known", "unknown"), strict=True):
            client.create_topics([KafkaTopic(name, 1)])[name].result(20)
        found = [client.list_topics(timeout=20) for client in clients]
        log = both.server.gateway.catalog.log
        done = [one for one in history(log) if one.operation == "CREATE TOPICS"]

        ports = [broker.port for one in found for broker in one.brokers.values()]
        assert ports == [one.port for one in both.server.listeners]
        assert [sorted(one.topics) for one in found] == [["known", "unknown"]] * 2
        assert {one.parameters.get("principal") for one in done} == {TOKEN, None}

    def test_a_client_without_sasl_gets_nothing_where_it_is_needed(
        self, both: RunningGateway, tmp_path: Path
    ) -> None:
        secured = {"security_protocol": "SSL", "ssl_ca_location": str(tmp_path / "c.pem")}
        with pytest.raises(KafkaException):
            librdkafka(both, 0, **secured).list_topics(timeout=3)
        with Client(both.port) as bare, with_tls(Client(both.port), tmp_path) as client:
            bare.send(topics_asked(12))
            client.send(topics_asked(12))
            assert (bare.receive_frame(), client.receive_frame()) == (b"", b"")

    def test_where_it_is_not_needed_it_is_out_of_place(self, both: RunningGateway) -> None:
        with anonymous(both) as client:
            assert shaken(client, "PLAIN").error_code == ErrorCode.illegal_sasl_state
            message = f"\0{TOKEN}\0{TOKEN}".encode()
            assert shown(client, message).error_code == ErrorCode.illegal_sasl_state
            assert seen(client) == []

    def test_a_new_file_of_tokens_changes_nothing_for_who_shows_none(
        self, both: RunningGateway, tmp_path: Path
    ) -> None:
        """Goal: it neither closes a connection without authentication nor opens one with it."""
        both.server.gateway.admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])

        async def renewed() -> None:
            token_file(tmp_path, {"everybody": [("", ["read", "write", "admin"])]})
            for _ in range(3):
                both.server._grants.renew()

        with anonymous(both) as client, with_tls(Client(both.port), tmp_path) as secured:
            assert seen(client) == ["a", "b"]
            assert shaken(secured, "PLAIN").error_code == ErrorCode.none
            both.run(renewed())
            assert seen(client) == ["a", "b"]
            secured.send(topics_asked(12))
            assert secured.receive_frame() == b""
