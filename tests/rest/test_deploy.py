"""deploy/ names what there is: settings, modules, files; and systemd understands the unit."""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from sparklog.rest.app import create_app
from sparklog.rest.settings import Settings
from sparklog.wire.settings import Settings as GatewaySettings
from tests.rest.conftest import settings_for

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
UNIT = (ROOT / "deploy" / "sparklog-rest.service").read_text()
SYSTEMD = shutil.which("systemd-analyze") or "true"
"""Where there is no systemd nobody is asked."""


@pytest.mark.parametrize("text", [DOCKERFILE, UNIT])
class TestBoth:
    def test_set_what_is_a_setting(self, text: str) -> None:
        named = {name.lower() for name in re.findall(r"SPARKLOG_([A-Z_]+)", text)}

        of_gateway = set(GatewaySettings.model_fields) if text == DOCKERFILE else set()
        assert "log_dir" in named
        assert named <= set(Settings.model_fields) | of_gateway

    def test_run_modules_that_there_are(self, text: str) -> None:
        started = re.findall(r'-m"?,? "?([\w.]+)', text)

        assert "sparklog.record.kernels" in started
        assert all(find_spec(name) for name in started)

    def test_start_the_service(self, text: str) -> None:
        assert re.search(r"""(bin/sparklog rest|"sparklog", "rest")""", text)

    def test_keep_the_kernels_where_they_may_write(self, text: str) -> None:
        assert re.search(r"NUMBA_CACHE_DIR=/var/cache/sparklog\s", text)


@pytest.mark.parametrize("unit", sorted((ROOT / "deploy").glob("*.service")))
def test_units_that_start_at_once_compile_the_kernels_once(unit: Path) -> None:
    """The cache, which the units share, is locked meanwhile."""
    text = unit.read_text()
    (folder,) = re.findall(r"(?m)^Environment=NUMBA_CACHE_DIR=(.+)$", text)

    assert f"\nExecStartPre=/usr/bin/flock {folder} /opt/" in text


class TestDockerfile:
    def test_copies_what_there_is(self) -> None:
        copied = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if line[:5] == "COPY "]
        names = [name for line in copied for name in line]

        assert {"sparklog", "constraints.txt"} <= set(names)
        assert [name for name in names if not (ROOT / name).exists()] == []

    def test_knows_the_port_and_asks_a_path_that_needs_no_token(self, tmp_path: Path) -> None:
        paths = create_app(settings_for(tmp_path)).openapi()["paths"]
        port = Settings.model_fields["port"].default

        assert f"EXPOSE {port}\n" in DOCKERFILE
        assert f"http://127.0.0.1:{port}/ready" in DOCKERFILE
        assert "/ready" in paths


class TestUnit:
    def test_is_understood_by_systemd(self, tmp_path: Path) -> None:
        unit = tmp_path / "sparklog-rest.service"
        unit.write_text(UNIT.replace("/opt/sparklog/.venv/bin", str(Path(sys.executable).parent)))
        run = subprocess.run([SYSTEMD, "verify", unit], capture_output=True, text=True, check=False)

        assert (run.returncode, run.stdout + run.stderr) == (0, "")

    def test_waits_longer_for_the_end_than_the_service_takes(self) -> None:
        (waits_s,) = re.findall(r"TimeoutStopSec=(\d+)\n", UNIT)

        assert int(waits_s) * 1000 > Settings.model_fields["shutdown_timeout_ms"].default

    def test_points_at_the_documentation(self) -> None:
        (path,) = re.findall(r"Documentation=file:///opt/sparklog/(\S+)\n", UNIT)

        assert (ROOT / path).exists()


def test_every_setting_is_documented_with_its_default() -> None:
    """Texts and lists stand in words; a number may have a unit."""
    table = (ROOT / "docs" / "rest.md").read_text().partition("| setting | default |")[2]
    told: dict[str, str] = {}
    for names, defaults in re.findall(r"(?m)^\| (`[^|]+) \| ([^|]*)\|", table):
        told |= zip(re.findall(r"`(\w+)`", names), defaults.strip().split(", "), strict=True)
    units = {"": 1, "KiB": 1024, "MiB": 1024 * 1024, "s": 1000}

    assert set(told) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        if type(field.default) is int:
            number, _, unit = told[name].replace(",", "").partition(" ")
            assert (name, int(number) * units[unit]) == (name, field.default)
