"""docs/gateway.md names every setting with its default, and every API with its versions."""

from pathlib import Path

import pytest

from sparklog.wire.settings import Settings
from sparklog.wire.versions import APIS, ApiKey

TEXT = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_a_setting_is_documented(name: str) -> None:
    [line] = [line for line in TEXT.splitlines() if line.startswith("|") and f"`{name}`" in line]
    default = Settings.model_fields[name].default
    if isinstance(default, int) and not isinstance(default, bool):
        assert f"| {default} |" in line


@pytest.mark.parametrize("key", sorted(APIS))
def test_an_api_is_documented(key: ApiKey) -> None:
    name = "".join(word.capitalize() for word in key.name.split("_"))
    api = APIS[key]
    lines = [line for line in TEXT.splitlines() if line.startswith(f"| {name} |")]
    assert [f"{api.min_version} to {api.max_version}" in line for line in lines] == [True]
