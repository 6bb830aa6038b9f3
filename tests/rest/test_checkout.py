"""`api/` in a checkout: the application for any ASGI server, with settings of the environment."""

import runpy

import pytest

from sparklog.rest.app import Application


def test_the_application_has_the_settings_of_the_environment(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLOG_LOG_DIR", log_dir)
    app = runpy.run_module("api.app")["app"]

    assert isinstance(app, Application)
    assert app.state.service.settings.log_dir == log_dir
