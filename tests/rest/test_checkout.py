"""`api/` in a checkout: the application for any ASGI server, and the older name of the command."""

import runpy
import sys

import pytest

from sparklog.rest.app import Application


def test_the_application_has_the_settings_of_the_environment(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLOG_LOG_DIR", log_dir)
    app = runpy.run_module("api.app")["app"]

    assert isinstance(app, Application)
    assert app.state.service.settings.log_dir == log_dir


def test_the_older_name_is_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["api", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("api", run_name="__main__")

    assert ended.value.code == 0
    assert "--linger-ms" in capsys.readouterr().out
