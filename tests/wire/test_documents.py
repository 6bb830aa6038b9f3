"""docs/gateway.md names every setting with its default."""

from pathlib import Path

import pytest

from sparklog.wire.settings import Settings

TEXT = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_a_setting_is_documented(name: str) -> None:
    rows = [line.split("|") for line in TEXT.splitlines() if line.startswith("| `")]
    [default] = [row[2].strip() for row in rows if f"`{name}`" in row[1]]
    expected = Settings.model_fields[name].default
    if isinstance(expected, int):
        assert default == str(expected).lower()
