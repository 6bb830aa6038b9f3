"""TLS: connections, and certificates that are renewed."""

import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparklog.errors import InvalidOptionError
from tests.waiting import until
from tests.wire.gateways import Client, certificate_in, gateway
from tests.wire.test_metadata import topics_asked


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, Path]:
    return certificate_in(tmp_path)


def test_a_client_is_answered(tmp_path: Path, certificate: dict[str, Path]) -> None:
    context = ssl.create_default_context(cafile=str(certificate["ssl_certificate_file"]))
    listen = ("SSL://127.0.0.1:0",)
    with (
        gateway(tmp_path / "log", listen=listen, **certificate) as running,
        Client(running.port) as client,
    ):
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        assert client.ask(topics_asked(12)).brokers[0].port == running.port


def test_a_client_may_leave(
    tmp_path: Path, certificate: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(cafile=str(certificate["ssl_certificate_file"]))
    values = {"listen": ("SSL://127.0.0.1:0",), **certificate}
    with gateway(tmp_path / "log", **values) as running, Client(running.port) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        client.socket.unwrap()
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []


@pytest.mark.parametrize("key", [("rsa:2048",), ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")])
def test_a_renewed_certificate_is_shown_to_later_clients(
    tmp_path: Path, key: Sequence[str]
) -> None:
    """A context of OpenSSL would keep one for each kind of key, and prefer the old one."""
    certificate = certificate_in(tmp_path, key=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"))
    with gateway(tmp_path / "log", listen=("SSL://127.0.0.1:0",), **certificate) as running:
        before = ssl.get_server_certificate(("127.0.0.1", running.port))
        certificate_in(tmp_path, key=key)
        until(lambda: ssl.get_server_certificate(("127.0.0.1", running.port)) != before)


def test_a_damaged_one_changes_nothing_and_is_told(
    tmp_path: Path, certificate: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with gateway(tmp_path / "log", listen=("SSL://127.0.0.1:0",), **certificate) as running:
        before = ssl.get_server_certificate(("127.0.0.1", running.port))
        certificate["ssl_key_file"].write_text("no key")
        until(lambda: "the certificate stays as it was" in caplog.text)
        assert ssl.get_server_certificate(("127.0.0.1", running.port)) == before


def test_a_key_that_is_none_is_refused(tmp_path: Path, certificate: dict[str, Path]) -> None:
    certificate["ssl_key_file"].write_text("no key")
    with (
        pytest.raises(InvalidOptionError, match="certificate"),
        ExitStack() as stack,
    ):
        stack.enter_context(gateway(tmp_path / "log", listen=("SSL://127.0.0.1:0",), **certificate))
