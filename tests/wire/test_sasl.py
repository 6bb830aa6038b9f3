"""Authentication: PLAIN with tokens, SCRAM with users; what comes before it is refused."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient as KafkaAdmin
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.errors import StorageError
from sparklog.metadata.plans.cluster import with_users
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.security.scram import HASHES, ITERATIONS, credential, salted_password
from tests.failing import failing_later
from tests.rest.tokens import token_file
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, frame_of, gateway, request
from tests.wire.test_metadata import metadata_request, topics_asked

TOKEN = "a-token"


def secured_file(folder: Path) -> Path:
    """Tokens, and two users: `alice` may read topics that begin with a, `eve` has no grant."""
    path = token_file(folder, {TOKEN: [("", ["read", "write", "admin"])]})
    grants = '[{ prefix = "a", scopes = ["read"] }]'
    path.write_text(f"{path.read_text()}\n[[users]]\nname = 'alice'\ngrants = {grants}\n")
    return path


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway whose clients authenticate; the failed ones are told at once."""
    values = {
        "tokens_file": secured_file(tmp_path),
        "connection_failed_authentication_delay_ms": 0,
    }
    with gateway(tmp_path / "log", **values) as running:
        running.server.gateway.admin.create_topics([NewTopic("ab", 1), NewTopic("b", 1)])
        yield running


def with_password(running: RunningGateway, user: str, password: str) -> None:
    changes = {}
    for mechanism in HASHES:
        salt = os.urandom(20)
        salted = salted_password(mechanism, password, salt, ITERATIONS)
        changes[user, mechanism] = credential(mechanism, salted, salt, ITERATIONS)
    running.server.gateway.catalog.log.commit(lambda image: with_users(image, changes))


def shaken(client: Client, mechanism: str, version: int = 1) -> Any:
    return client.ask(request(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism))


def shown(client: Client, message: bytes, version: int = 2) -> Any:
    return client.ask(request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=message))


def made_up_salt(running: RunningGateway, mechanism: str) -> bytes:
    with Client(running.port) as client:
        shaken(client, mechanism)
        return bytes(shown(client, b"n,,n=nobody,r=x").auth_bytes).split(b",")[1]


def seen(client: Client) -> list[str]:
    """The names in a list of all topics."""
    return [topic.name for topic in client.ask(metadata_request(12, None)).topics]


def librdkafka(running: RunningGateway, mechanism: str, user: str, password: str) -> KafkaAdmin:
    return KafkaAdmin(
        {
            "bootstrap.servers": running.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }
    )


class TestPlain:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_takes_a_token_and_its_name(self, secured: RunningGateway, version: int) -> None:
        with Client(secured.port) as client:
            shaken(client, "PLAIN")
            answer = shown(client, f"\0{TOKEN}\0{TOKEN}".encode(), version)
            assert answer.error_code == ErrorCode.none
            assert seen(client) == ["ab", "b"]

    @pytest.mark.parametrize(
        "message",
        [b"", b"\0a-token\0wrong", b"\0other\0a-token", b"x\0a-token\0a-token", b"\0\xff\0\xff"],
    )
    def test_refuses_others_and_closes(self, secured: RunningGateway, message: bytes) -> None:
        with Client(secured.port) as client:
            shaken(client, "PLAIN")
            assert shown(client, message).error_code == ErrorCode.sasl_authentication_failed
            assert client.receive_frame() == b""

    def test_is_spoken_without_headers_behind_the_old_handshake(
        self, secured: RunningGateway
    ) -> None:
        with Client(secured.port) as client:
            shaken(client, "PLAIN", version=0)
            client.send_frame(f"\0{TOKEN}\0{TOKEN}".encode())
            assert client.receive_frame() == b""
            assert seen(client) == ["ab", "b"]

    def test_closes_what_the_old_handshake_cannot_tell(self, secured: RunningGateway) -> None:
        with Client(secured.port) as client:
            shaken(client, "PLAIN", version=0)
            client.send_frame(b"nonsense")
            assert client.socket.recv(1) == b""

    def test_reads_nothing_of_the_log_dir(
        self, secured: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: its clients are authenticated while the storage is away."""
        monkeypatch.setattr(
            secured.server.gateway, "image", failing_later(StorageError, "the disk is gone")
        )
        with Client(secured.port) as client, Client(secured.port) as other:
            shaken(client, "PLAIN")
            assert shown(client, f"\0{TOKEN}\0{TOKEN}".encode()).error_code == ErrorCode.none
            shaken(other, "SCRAM-SHA-256")
            other.send(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"n,,n=alice,r=x"))
            assert other.receive_frame() == b""


@pytest.mark.parametrize("mechanism", sorted(HASHES))
class TestScram:
    def test_a_user_has_the_grants_of_the_file(
        self, secured: RunningGateway, mechanism: str
    ) -> None:
        with_password(secured, "alice", "secret")
        found = librdkafka(secured, mechanism, "alice", "secret").list_topics(timeout=20)
        assert list(found.topics) == ["ab"]

    def test_all_instances_of_a_log_dir_make_up_the_same_salt(
        self, secured: RunningGateway, mechanism: str, tmp_path: Path
    ) -> None:
        """Else a salt that differs shows that there is no such user."""
        salts = [made_up_salt(secured, mechanism)]
        for folder in ("log", "other"):
            with gateway(tmp_path / folder, tokens_file=secured_file(tmp_path)) as running:
                salts.append(made_up_salt(running, mechanism))
        assert salts[0] == salts[1] != salts[2]

    def test_another_password_is_refused(self, secured: RunningGateway, mechanism: str) -> None:
        with_password(secured, "alice", "secret")
        with pytest.raises(KafkaException):
            librdkafka(secured, mechanism, "alice", "wrong").list_topics(timeout=3)


class TestBeforeAuthentication:
    def test_other_requests_close_the_connection(
        self, secured: RunningGateway, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Client(secured.port) as client:
            client.send(topics_asked(12, "ab"))
            assert client.receive_frame() == b""
        assert "METADATA before authentication (is security.protocol SASL…?)" in caplog.text

    def test_versions_are_told(self, secured: RunningGateway) -> None:
        with Client(secured.port) as client:
            answer = client.ask(request(ApiKey.API_VERSIONS, 0))
            assert answer.error_code == ErrorCode.none

    def test_an_unknown_mechanism_is_refused(self, secured: RunningGateway) -> None:
        with Client(secured.port) as client:
            answer = shaken(client, "GSSAPI")
            assert answer.error_code == ErrorCode.unsupported_sasl_mechanism
            assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
            assert client.receive_frame() == b""

    def test_a_message_comes_behind_a_handshake(self, secured: RunningGateway) -> None:
        with Client(secured.port) as client:
            assert shown(client, b"").error_code == ErrorCode.illegal_sasl_state

    def test_a_handshake_comes_once(self, secured: RunningGateway) -> None:
        with Client(secured.port) as client:
            shaken(client, "PLAIN")
            assert shaken(client, "PLAIN").error_code == ErrorCode.illegal_sasl_state

    def test_frames_are_small(
        self, secured: RunningGateway, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Client(secured.port) as client:
            client.socket.sendall(struct.pack(">i", 512 * 1024 + 1))
            assert client.receive_frame() == b""
        assert "sasl.server.max.receive.size" in caplog.text

    def test_large_ones_are_allowed_behind_it(self, secured: RunningGateway) -> None:
        with Client(secured.port) as client:
            shaken(client, "PLAIN")
            shown(client, f"\0{TOKEN}\0{TOKEN}".encode())
            client.send_frame(frame_of(topics_asked(12, "ab")) + bytes(600 * 1024))
            assert client.receive(ApiKey.METADATA, 12).topics[0].name == "ab"


class TestAFileThatChanges:
    def test_changes_what_open_connections_may_do(
        self, secured: RunningGateway, tmp_path: Path
    ) -> None:
        with Client(secured.port) as client:
            shaken(client, "PLAIN")
            shown(client, f"\0{TOKEN}\0{TOKEN}".encode())
            assert seen(client) == ["ab", "b"]
            token_file(tmp_path, {TOKEN: [("a", ["read"])]})
            until(lambda: seen(client) == ["ab"])

    def test_closes_the_connections_of_a_token_that_has_gone(
        self, secured: RunningGateway, tmp_path: Path
    ) -> None:
        with Client(secured.port) as known, Client(secured.port) as unknown:
            shaken(known, "PLAIN")
            shown(known, f"\0{TOKEN}\0{TOKEN}".encode())
            token_file(tmp_path, {"another": []})
            assert known.receive_frame() == b""
            assert shaken(unknown, "PLAIN").error_code == ErrorCode.none

    def test_that_is_not_written_yet_closes_nothing(
        self, secured: RunningGateway, tmp_path: Path
    ) -> None:
        path, server = tmp_path / "tokens.toml", secured.server

        async def looks() -> None:
            text = path.read_text()
            path.write_text("")
            server._grants.renew()
            path.write_text(text)
            server._grants.renew()
            server._grants.renew()

        with Client(secured.port) as client:
            shaken(client, "PLAIN")
            shown(client, f"\0{TOKEN}\0{TOKEN}".encode())
            secured.run(looks())
            assert seen(client) == ["ab", "b"]


def test_where_everybody_is_known_nobody_authenticates(client: Client) -> None:
    assert shaken(client, "PLAIN").error_code == ErrorCode.illegal_sasl_state
