"""deploy/ names what the scheduler has: keys, modules, files; and systemd understands the unit."""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from sparklog.spark.jobs.scheduler_config import METRICS_PORT, known_keys, parse

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "sparklog-scheduler.service").read_text()
STAGE = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[2]
CONFIG = (DEPLOY / "scheduler.toml").read_text()
SYSTEMD = shutil.which("systemd-analyze") or "true"
"""Where there is no systemd nobody is asked."""


class TestConfiguration:
    def test_is_one_as_it_stands(self) -> None:
        config = parse(CONFIG)

        assert config.log_dirs == ["/var/lib/sparklog/log"]
        assert config.spark == {"spark.master": "local[*]", "spark.driver.memory": "2g"}

    def test_names_every_key_with_its_default(self) -> None:
        given = re.sub(r"(?m)^#(?=[\w.]+ = )", "", CONFIG)
        named = set(re.findall(r"(?m)^([\w.]+) = ", given))
        minimal, whole = parse('log.dirs = ["log"]'), parse(given)

        assert named >= set(known_keys())
        assert whole.schedules == minimal.schedules
        assert (whole.metrics_host, whole.metrics_port) == (
            minimal.metrics_host,
            minimal.metrics_port,
        )


class TestImage:
    def test_is_a_stage_with_java(self) -> None:
        assert STAGE.startswith("base AS scheduler\n")
        assert "openjdk-17-jre-headless" in STAGE

    def test_runs_the_scheduler_with_a_configuration_that_there_is(self) -> None:
        (config,) = re.findall(r"COPY deploy/(\S+) /etc/sparklog/\n", STAGE)

        assert 'CMD ["sparklog", "jobs", "scheduler", ' in STAGE
        assert (DEPLOY / config).exists()
        assert f'"/etc/sparklog/{config}"' in STAGE

    def test_knows_the_port(self) -> None:
        assert f"\nEXPOSE {METRICS_PORT}\n" in STAGE


class TestUnit:
    def test_is_understood_by_systemd(self, tmp_path: Path) -> None:
        unit = tmp_path / "sparklog-scheduler.service"
        unit.write_text(UNIT.replace("/opt/sparklog/.venv/bin", str(Path(sys.executable).parent)))
        run = subprocess.run([SYSTEMD, "verify", unit], capture_output=True, text=True, check=False)

        assert (run.returncode, run.stdout + run.stderr) == (0, "")

    def test_runs_modules_that_there_are(self) -> None:
        started = re.findall(r" -m ([\w.]+)", UNIT)

        assert started == ["sparklog.record.kernels"]
        assert all(find_spec(name) for name in started)
        assert "bin/sparklog jobs scheduler --config " in UNIT

    def test_keeps_the_kernels_where_it_may_write(self) -> None:
        assert "NUMBA_CACHE_DIR=/var/cache/sparklog\n" in UNIT
        assert "\nCacheDirectory=sparklog " in UNIT

    def test_points_at_the_documentation(self) -> None:
        (path,) = re.findall(r"Documentation=file:///opt/sparklog/(\S+)\n", UNIT)

        assert (ROOT / path).exists()
