"""docs/gateway.md names every setting with its default; deploy/ names what there is."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.wire.protocol.versions import APIS
from sparklog.wire.settings import Settings
from tests.wire.gateways import RunningGateway

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "gateway.md").read_text()
UNIT = (ROOT / "deploy" / "sparklog-gateway.service").read_text()
STAGE = (
    (ROOT / "deploy" / "Dockerfile").read_text().split("FROM base AS gateway")[1].split("FROM")[0]
)
SYSTEMD = shutil.which("systemd-analyze") or "true"
"""Where there is no systemd nobody is asked."""


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_a_setting_is_documented(name: str) -> None:
    rows = [line.split("|") for line in TEXT.splitlines() if line.startswith("| `")]
    [default] = [row[2].strip() for row in rows if f"`{name}`" in row[1]]
    expected = Settings.model_fields[name].default
    if isinstance(expected, int):
        assert default == str(expected).lower()


def test_exactly_the_metrics_that_there_are_are_documented(running: RunningGateway) -> None:
    lines = running.server.gateway.metrics.text().decode().splitlines()
    kinds = [line.split()[2:] for line in lines if line.startswith("# TYPE ")]
    documented = re.findall(r"^\| `(sparklog_\w+)` \|", TEXT, re.MULTILINE)
    assert sorted(documented) == sorted(name for name, _ in kinds if not name.endswith("_created"))


def test_exactly_the_apis_that_there_are_are_documented() -> None:
    table = TEXT.partition("| API | versions |\n|---|---|\n")[2].partition("\n\n")[0]
    documented: dict[str, str] = {}
    for names, versions in re.findall(r"(?m)^\| ([^|]+) \| ([^|;]+)", table):
        documented |= zip(names.split(", "), re.findall(r"\d+(?: to \d+)?", versions), strict=True)
    served = {}
    for key, api in APIS.items():
        first = max(api.min_version, api.served_from)
        name = key.name.replace("_", "").lower()
        served[name] = str(first) if first == api.max_version else f"{first} to {api.max_version}"

    assert {name.lower(): versions for name, versions in documented.items()} == served


@pytest.mark.parametrize("text", [UNIT, STAGE])
def test_what_is_deployed_sets_settings_and_starts_the_gateway(text: str) -> None:
    named = {name.lower() for name in re.findall(r"SPARKLOG_([A-Z_]+)", text)}
    options = {name.replace("-", "_") for name in re.findall(r'"--([a-z-]+)"', text)}
    assert "log_dir" in named
    assert named | options <= set(Settings.model_fields)
    assert re.search(r"""(bin/sparklog gateway|"sparklog", "gateway")""", text)


def test_the_unit_is_understood_by_systemd(tmp_path: Path) -> None:
    unit = tmp_path / "sparklog-gateway.service"
    unit.write_text(UNIT.replace("/opt/sparklog/.venv/bin", str(Path(sys.executable).parent)))
    run = subprocess.run([SYSTEMD, "verify", unit], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")
