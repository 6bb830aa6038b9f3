"""Kafka's own programs authenticate to a gateway: PLAIN and SCRAM, with TLS and without.

Every call starts a JVM, so a test asks for several things.
"""

import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from sparklog.admin import NewTopic
from sparklog.testing import TemporaryLogDir
from tests.kafka.jars import KAFKA, SHORT_LIVED, class_path, java
from tests.wire.gateways import RunningGateway, certificate_in, gateway

pytestmark = pytest.mark.kafka

TOKEN, PASSWORD = "a-token", "a, password"
TIMEOUT_S = 120
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = f"""
[[tokens]]
name = "operator"
sha256 = "{sha256(TOKEN.encode()).hexdigest()}"
grants = [{{ prefix = "", scopes = ["read", "admin"], resource = "cluster" }}]

[[users]]
name = "alice"
grants = [{{ prefix = "flights", scopes = ["read", "write"] }}]
"""


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway with a listener in plain text and one with TLS; both authenticate."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(TOKENS)
    listen = ("127.0.0.1:0", "SASL_SSL://127.0.0.1:0")
    given: dict[str, object] = {"listen": listen, "tokens_file": tokens, **certificate_in(tmp_path)}
    with gateway(tmp_path / "log", **given) as running:
        running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
        yield running


class JavaClient:
    """A user of Kafka's programs, with client.properties of its own."""

    def __init__(self, running: RunningGateway, folder: Path) -> None:
        self._running = running
        self._folder = folder

    def run(
        self, tool: str, *arguments: str, how: tuple[str, str, str], given: str = ""
    ) -> tuple[int, str]:
        """Return the exit code of a program and what it says; `how` is a mechanism and a user."""
        is_tls = "--tls" in arguments
        listener = self._running.server.listeners[is_tls]
        flag = {PRODUCER: "--producer.config", CONSUMER: "--consumer.config"}.get(tool)
        command = [java(), *SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += ["-cp", class_path(KAFKA), tool]
        command += ["--bootstrap-server", f"127.0.0.1:{listener.port}"]
        command += [flag or "--command-config", str(self._properties(is_tls, *how))]
        command += [one for one in arguments if one != "--tls"]
        found = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        return found.returncode, found.stdout + found.stderr

    def _properties(self, is_tls: bool, mechanism: str, user: str, password: str) -> Path:
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        module = f"org.apache.kafka.common.security.{kind}LoginModule"
        lines = [
            f"security.protocol={'SASL_SSL' if is_tls else 'SASL_PLAINTEXT'}",
            f"sasl.mechanism={mechanism}",
            f'sasl.jaas.config={module} required username="{user}" password="{password}";',
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self._folder / 'c.pem'}",
        ]
        path = self._folder / "client.properties"
        path.write_text("\n".join(lines[: None if is_tls else 3]))
        return path


def test_kafka_configs_makes_a_user_who_writes_and_reads(
    secured: RunningGateway, tmp_path: Path
) -> None:
    client = JavaClient(secured, tmp_path)
    operator = ("PLAIN", "operator", TOKEN)
    wanted = [f"SCRAM-SHA-{bits}=[password={PASSWORD}]" for bits in (256, 512)]
    user = ["--entity-type", "users", "--entity-name", "alice"]
    code, said = client.run(
        CONFIGS, "--tls", "--alter", *user, "--add-config", ",".join(wanted), how=operator
    )
    assert (code, "Completed updating config for user alice." in said) == (0, True), said
    where, sent = ["--topic", "flights"], ["a", "b", "c"]
    for mechanism, tls in (("SCRAM-SHA-256", ["--tls"]), ("SCRAM-SHA-512", [])):
        alice = (mechanism, "alice", PASSWORD)
        code, said = client.run(PRODUCER, *tls, *where, how=alice, given="\n".join(sent))
        assert code == 0, said
    found = TemporaryLogDir(tmp_path / "log")["flights"].values()
    assert found == [value.encode() for value in sent * 2]
    read = [*where, "--partition", "0", "--offset", "0", "--max-messages", "6"]
    code, said = client.run(CONSUMER, "--tls", *read, how=("SCRAM-SHA-512", "alice", PASSWORD))
    assert (code, said.split()[:6]) == (0, sent * 2), said


def test_who_is_not_known_and_who_may_not_are_told(secured: RunningGateway, tmp_path: Path) -> None:
    client = JavaClient(secured, tmp_path)
    described = ["--describe", "--entity-type", "users"]
    code, said = client.run(CONFIGS, *described, how=("SCRAM-SHA-256", "alice", "another"))
    assert (code, "SaslAuthenticationException" in said) == (1, True), said
    code, said = client.run(
        PRODUCER, "--topic", "flights", how=("PLAIN", "operator", TOKEN), given="a"
    )
    assert "TopicAuthorizationException" in said, (code, said)
    assert TemporaryLogDir(tmp_path / "log")["flights"].values() == []
