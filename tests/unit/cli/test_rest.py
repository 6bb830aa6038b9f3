"""`sparklog rest`: options become settings of the service, which is not started here."""

import sys
from pathlib import Path

import pytest

from sparklog.rest import server
from sparklog.rest.settings import Settings
from sparklog.service.settings import option_of, variable_of
from tests.command_line import CommandLine


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings with which the service would have been started."""
    found: list[Settings] = []
    monkeypatch.setattr(server, "serve", found.append)
    return found


class TestOptions:
    def test_are_the_settings(self, started: list[Settings]) -> None:
        hosts = ["--allowed-hosts", "a", "--allowed-hosts", "b"]
        options = ["--port", "0", "--compression-type", "zstd", "--no-access-log", *hosts]
        CommandLine().done("rest", "--log-dir", "log", "--tokens-file", "f", *options)

        (found,) = started
        assert found == Settings(
            log_dir="log",
            port=0,
            compression_type="zstd",
            access_log=False,
            allowed_hosts=("a", "b"),
            tokens_file=Path("f"),
        )

    def test_win_over_variables(
        self, started: list[Settings], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SPARKLOG_PORT", "1")
        monkeypatch.setenv("SPARKLOG_LINGER_MS", "7")
        CommandLine("log").done("rest", "--port", "2")

        assert [(one.log_dir, one.port, one.linger_ms) for one in started] == [("log", 2, 7)]

    def test_stand_in_the_help_with_their_defaults(self) -> None:
        text = CommandLine().done("rest", "--help").text

        assert [name for name in Settings.model_fields if option_of(name) not in text] == []
        assert "none|gzip|snappy|lz4|zstd" in text
        assert "8082" in text

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ([], "--log-dir (SPARKLOG_LOG_DIR): Field required"),
            (["--log-dir", "d", "--port", "x"], "--port (SPARKLOG_PORT): Input should be a valid"),
            (["--log-dir", "d", "--host", "0.0.0.0"], "this machine: that needs --tokens-file"),
            (["--prot", "1"], "No such option: --prot"),
        ],
    )
    def test_that_are_wrong_are_misuse(self, arguments: list[str], told: str) -> None:
        outcome = CommandLine()("rest", *arguments)

        assert (outcome.code, outcome.out) == (2, b"")
        assert told in outcome.err

    def test_of_the_storage_are_the_environments(self) -> None:
        outcome = CommandLine("log")("-S", "A=1", "rest")

        assert outcome.code == 2
        assert "takes storage settings from the environment" in outcome.err


class TestExtra:
    def test_that_is_missing_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("sparklog.rest.server", "sparklog.rest.settings"):
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, "pydantic_settings", None)
        outcome = CommandLine("log")("rest")

        assert outcome.code == 1
        assert "pip install 'sparklog[rest]'" in outcome.err

    def test_a_module_of_our_own_that_is_missing_is_a_fault(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "sparklog.rest.server", None)
        outcome = CommandLine("log")("rest")

        assert outcome.code == 1
        assert "ModuleNotFoundError" in outcome.err


def test_a_variable_is_the_name_in_capitals() -> None:
    assert variable_of("max_body_bytes") == "SPARKLOG_MAX_BODY_BYTES"
