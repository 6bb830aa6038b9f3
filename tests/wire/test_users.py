"""Users: by `sparklog users`, and as kafka-configs asks a gateway."""

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.errors import StorageError
from sparklog.metadata.log import MetadataLog
from sparklog.wire.protocol.versions import ApiKey
from tests.command_line import CommandLine
from tests.failing import failing
from tests.wire.gateways import Client, RunningGateway
from tests.wire.requests import body, part
from tests.wire.test_sasl import librdkafka, secured, seen  # noqa: F401 - a fixture

ALTER = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
DESCRIBE = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS


def setting(name: str, mechanism: int = 1, iterations: int = 4096) -> Any:
    fields = {"mechanism": mechanism, "iterations": iterations}
    secret = {"salt": b"salt", "salted_password": b"salted"}
    return part(ALTER, 0, "ScramCredentialUpsertion", name=name, **fields, **secret)


def removing(name: str, mechanism: int = 1) -> Any:
    return part(ALTER, 0, "ScramCredentialDeletion", name=name, mechanism=mechanism)


def alter_users(client: Client, *parts: Any) -> Any:
    """The outcomes of a request that sets and removes."""
    set_ = tuple(one for one in parts if hasattr(one, "iterations"))
    removed = tuple(one for one in parts if not hasattr(one, "iterations"))
    return client.ask(body(ALTER, 0, upsertions=set_, deletions=removed)).results


def described(client: Client, *names: str) -> Any:
    users = tuple(part(DESCRIBE, 0, "UserName", name=name) for name in names)
    return client.ask(body(DESCRIBE, 0, users=users or None)).results


def found(client: Client, *names: str) -> dict[str, list[tuple[int, int]]]:
    """Mechanisms and iterations by user."""
    return {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in described(client, *names)
    }


class TestRequests:
    def test_set_and_remove_credentials(self, client: Client) -> None:
        answers = alter_users(client, setting("alice"), setting("alice", 2, 8192), setting("bob"))
        assert [(one.user, one.error_code) for one in answers] == [("alice", 0), ("bob", 0)]
        assert found(client) == {"alice": [(1, 4096), (2, 8192)], "bob": [(1, 4096)]}

        alter_users(client, removing("alice"), removing("bob"))
        assert found(client) == {"alice": [(2, 8192)]}

    @pytest.mark.parametrize(
        ("parts", "code"),
        [
            ([setting("")], ErrorCode.unacceptable_credential),
            ([setting("alice", iterations=4095)], ErrorCode.unacceptable_credential),
            ([setting("alice", iterations=16385)], ErrorCode.unacceptable_credential),
            ([setting("alice", 3)], ErrorCode.unsupported_sasl_mechanism),
            ([setting("alice"), removing("alice")], ErrorCode.duplicate_resource),
            ([removing("alice")], ErrorCode.resource_not_found),
        ],
    )
    def test_refuse_a_user_and_take_the_others(
        self, client: Client, parts: list[Any], code: ErrorCode
    ) -> None:
        refused, done = alter_users(client, *parts[:1], setting("bob"), *parts[1:])
        if refused.user == "bob":
            refused, done = done, refused
        assert (refused.error_code, done.error_code) == (code, ErrorCode.none)
        assert list(found(client)) == ["bob"]

    def test_tell_a_storage_that_fails(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(MetadataLog, "commit", failing(StorageError, "no disk"))
        [answer] = alter_users(client, setting("alice"))
        assert answer.error_code == ErrorCode.kafka_storage_error

    def test_tell_who_is_not_there_or_named_twice(self, client: Client) -> None:
        alter_users(client, setting("alice"))
        answers = described(client, "alice", "alice", "bob")
        assert [one.error_code for one in answers] == [
            ErrorCode.duplicate_resource,
            ErrorCode.resource_not_found,
        ]


class TestCommands:
    def test_a_user_authenticates_with_its_password(
        self,
        secured: RunningGateway,  # noqa: F811 - the fixture
        tmp_path: Path,
    ) -> None:
        sparklog = CommandLine(str(tmp_path / "log"))
        assert sparklog.done("users", "add", "alice", stdin=b"secret\n").lines == [
            "Added user alice."
        ]
        client = librdkafka(secured, "SCRAM-SHA-512", "alice", "secret")
        assert list(client.list_topics(timeout=20).topics) == ["ab"]

    def test_list_and_delete(self, running: RunningGateway, tmp_path: Path) -> None:
        sparklog = CommandLine(str(tmp_path / "log"))
        sparklog.done("users", "add", "alice", "--format", "json", "--iterations", 8192, stdin=b"s")
        assert sparklog.done("users", "list", "--format", "json").json == [
            {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
            {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
        ]
        assert "8192" in sparklog.done("users", "list").text
        assert sparklog.done("users", "delete", "alice").lines == ["Deleted user alice."]
        assert sparklog.done("users", "add", "bob", "--quiet", stdin=b"s").text == ""
        assert sparklog.done("users", "delete", "bob", "--quiet").text == ""
        assert sparklog.done("users", "list", "--format", "json").json == []

    @pytest.mark.parametrize(
        ("arguments", "stdin", "code", "told"),
        [
            (["add", "alice"], b"", 2, "no password"),
            (["add", ""], b"s", 2, "must not be empty"),
            (["add", "\udcff"], b"s", 2, "the user's name is not UTF-8"),
            (["add", "alice"], b"s\xff", 2, "the password is not UTF-8"),
            (["add", "alice", "--iterations", "1"], b"s", 2, "4096 to 16384"),
            (["delete", "alice"], b"", 1, "there is no user 'alice'"),
        ],
    )
    def test_say_what_is_wrong(
        self,
        running: RunningGateway,
        tmp_path: Path,
        arguments: list[str],
        stdin: bytes,
        code: int,
        told: str,
    ) -> None:
        outcome = CommandLine(str(tmp_path / "log"))("users", *arguments, stdin=stdin)
        assert (outcome.code, told in outcome.err) == (code, True)

    def test_a_password_is_asked_for_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from sparklog.cli import users

        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("typer.prompt", lambda *_, **__: "typed")
        assert users._password() == "typed"
