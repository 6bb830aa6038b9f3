"""docs/operations.md against the code: topic configs, jobs, the scheduler's keys."""

import re
from pathlib import Path

import pytest

from sparklog.cli.jobs import NAMES
from sparklog.config.keys import ConfigKey
from sparklog.config.topic_keys import KEPT_KEYS, SPARKLOG_KEYS
from sparklog.errors import InvalidConfigError
from sparklog.maintenance.registry import JOBS
from sparklog.spark.jobs.scheduler_config import parse

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text of a section, without its heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


CONFIGS = {
    name: (default, allowed)
    for name, default, allowed in re.findall(
        r"^\| `(\S+)` \| `?([^`|]+?)`? \| ([^|]+) \|", section("Topic configs"), re.MULTILINE
    )
}


class TestTopicConfigs:
    def test_it_has_every_config_of_sparklog_and_no_other(self) -> None:
        assert set(CONFIGS) == {key.name for key in SPARKLOG_KEYS}

    @pytest.mark.parametrize("key", SPARKLOG_KEYS, ids=lambda key: key.name)
    def test_defaults_and_bounds_are_the_programs(self, key: ConfigKey) -> None:
        default, allowed = CONFIGS[key.name]

        assert key.parse(default) == key.parse(str(key.default))
        if allowed.startswith("≥"):
            least = int(allowed.removeprefix("≥"))
            key.parse(str(least))
            with pytest.raises(InvalidConfigError):
                key.parse(str(least - 1))
        else:
            for word in re.findall("`([^`]+)`", allowed):
                key.parse(word)

    def test_it_names_every_config_without_effect(self) -> None:
        unused = section("Topic configs").partition("marked as\nunused:")[2].partition("\n\n")[0]
        families = r"remote\.|local\.retention\.|(leader|follower)\.replication\.throttled\."

        for key in KEPT_KEYS:
            assert re.match(families, key.name) or f"`{key.name}`" in unused


class TestJobs:
    def test_it_has_every_job_and_no_other(self) -> None:
        rows = re.findall(r"^\| `(\w+)` \|", section("Jobs"), re.MULTILINE)

        assert sorted([*rows, "scheduler"]) == sorted(NAMES)


class TestScheduler:
    def test_its_configuration_has_the_default_intervals(self) -> None:
        (block,) = re.findall(r"```toml\n(.*?)```", section("Scheduler"), re.DOTALL)
        numbers = {name: int(value) for name, value in re.findall(r"(?m)^(\S+) = (\d+)", block)}

        assert parse(block).log_dirs == ["/data/log", "s3://bucket/log"]
        assert {one.interval_key: one.interval_ms for one in JOBS.values()}.items() <= (
            numbers.items()
        )
