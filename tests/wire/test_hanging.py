"""A file system over a network whose server does not answer for a while."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.log_reader import followed_topics
from sparklog.metadata.entries import Entries
from sparklog.wire.versions import ApiKey
from tests.wire.gateways import Client, gateway, request
from tests.wire.test_metadata import topics_asked


def test_requests_that_need_no_file_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the event loop goes on, and with it health checks, metrics and the end by a signal."""
    monkeypatch.setattr(followed_topics, "is_over_network", lambda _: True)
    hangs, is_back, has = Event(), Event(), Entries.has

    def hanging(self: Entries, version: int) -> bool:
        hangs.set()
        assert is_back.wait(20)
        return has(self, version)

    with gateway(tmp_path / "log") as running, Client(running.port) as client:
        running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        with Client(running.port) as other, monkeypatch.context() as patch:
            patch.setattr(Entries, "has", hanging)
            client.send(topics_asked(12, "t"))
            assert hangs.wait(20)
            fields: dict[str, Any] = {"client_software_name": "c", "client_software_version": "1"}
            other.socket.settimeout(10)
            assert other.ask(request(ApiKey.API_VERSIONS, 3, **fields)).api_keys
            is_back.set()
            [found] = client.receive(ApiKey.METADATA, 12).topics
    assert (found.name, found.error_code) == ("t", ErrorCode.none)
