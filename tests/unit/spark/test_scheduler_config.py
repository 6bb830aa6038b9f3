import json
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import InvalidConfigError
from sparklog.maintenance.registry import JOBS
from sparklog.spark.jobs.scheduler import Scheduler, matching
from sparklog.spark.jobs.scheduler_config import Schedule, known_keys, parse

DIR = 'log.dirs = ["log"]\n'


def schedule(text: str, job: str = "retention") -> Schedule | None:
    """What the configuration says of a job; None when it never runs."""
    found = {one.job.name: one for one in parse(DIR + text).schedules}
    return found.get(job)


def interval_ms(text: str, job: str = "retention") -> int:
    found = schedule(text, job)
    assert found is not None
    return found.interval_ms


class TestDefaults:
    def test_every_job_runs_with_kafkas_intervals(self) -> None:
        config = parse(DIR)

        assert [one.job.name for one in config.schedules] == list(JOBS)
        assert interval_ms("") == 300_000
        assert interval_ms("", "compact") == 15_000
        assert (config.metrics_host, config.metrics_port) == ("127.0.0.1", 9465)
        assert (config.log_dirs, config.spark, config.storage) == (["log"], {}, {})

    def test_a_jobs_options_are_those_of_its_command_line(self) -> None:
        found = schedule("", "verify")

        assert found is not None
        assert found.options["repair"] is False
        assert found.topics == []


class TestKeys:
    def test_an_interval_is_kafkas_key(self) -> None:
        assert interval_ms("log.retention.check.interval.ms = 7") == 7

    def test_minus_one_is_never(self) -> None:
        assert schedule("log.cleaner.backoff.ms = -1", "compact") is None

    def test_topics_are_for_all_jobs_but_those_with_their_own(self) -> None:
        text = 'topics = ["a"]\njobs.vacuum.topics = ["b-*"]'
        mine, its = schedule(text), schedule(text, "vacuum")

        assert mine is not None
        assert its is not None
        assert (mine.topics, its.topics) == (["a"], ["b-*"])

    def test_an_empty_list_of_a_job_is_all_topics(self) -> None:
        found = schedule('topics = ["a"]\njobs.vacuum.topics = []', "vacuum")

        assert found is not None
        assert found.topics == []

    def test_options_may_stand_in_a_table(self) -> None:
        found = schedule("[jobs.verify]\nrepair = true", "verify")

        assert found is not None
        assert found.options["repair"] is True

    def test_sparks_and_the_storages_keys_are_handed_on_as_text(self) -> None:
        config = parse(
            f'{DIR}spark.master = "local[1]"\nspark.ui.enabled = false\nstorage.AWS_REGION = "x"'
        )

        assert config.spark == {"spark.master": "local[1]", "spark.ui.enabled": "false"}
        assert config.storage == {"AWS_REGION": "x"}

    def test_log_dirs_of_the_command_line_count_instead(self) -> None:
        assert parse(DIR, ["other"]).log_dirs == ["other"]
        assert parse("", ["other"]).log_dirs == ["other"]

    def test_metrics_have_an_address(self) -> None:
        config = parse(f'{DIR}sparklog.metrics.port = -1\nsparklog.metrics.host = "::"')

        assert (config.metrics_port, config.metrics_host) == (-1, "::")


class TestRefusals:
    @pytest.mark.parametrize("key", known_keys())
    def test_an_unknown_key_names_the_nearest(self, key: str) -> None:
        with pytest.raises(InvalidConfigError, match=f"the nearest is '{key}'"):
            parse(f"{DIR}{key}x = 1")

    def test_a_key_like_no_other_names_all(self) -> None:
        with pytest.raises(
            InvalidConfigError, match=r"'qqq' is no key .*: there are jobs\."
        ) as got:
            parse(f"{DIR}qqq = 1")

        assert "log.retention.check.interval.ms" in str(got.value)

    @pytest.mark.parametrize("value", ["0", "-2", "3153600000001", '"5 min"', "1.5", "true"])
    def test_an_interval_is_a_number_of_milliseconds(self, value: str) -> None:
        with pytest.raises(
            InvalidConfigError, match=r"log\.retention\.check\.interval\.ms=.*takes"
        ):
            parse(f"{DIR}log.retention.check.interval.ms = {value}")

    @pytest.mark.parametrize("port", ["-2", "65536", '"9465"'])
    def test_a_port_is_a_port(self, port: str) -> None:
        with pytest.raises(InvalidConfigError, match="an integer from -1 to 65535"):
            parse(f"{DIR}sparklog.metrics.port = {port}")

    @pytest.mark.parametrize("value", ['"a"', "[1]", '[""]'])
    def test_topics_are_a_list(self, value: str) -> None:
        with pytest.raises(InvalidConfigError, match="a list of texts"):
            parse(f"{DIR}topics = {value}")

    @pytest.mark.parametrize("value", ["1", '"yes"'])
    def test_an_option_is_of_its_defaults_type(self, value: str) -> None:
        with pytest.raises(InvalidConfigError, match=r"jobs\.compact\.force=.*like False"):
            parse(f"{DIR}jobs.compact.force = {value}")

    @pytest.mark.parametrize("value", ["5", '""'])
    def test_a_host_is_a_text(self, value: str) -> None:
        with pytest.raises(InvalidConfigError, match="takes a text"):
            parse(f"{DIR}sparklog.metrics.host = {value}")

    def test_a_log_dir_is_needed(self) -> None:
        with pytest.raises(InvalidConfigError, match=r"log\.dirs is missing"):
            parse("")

    def test_no_toml_is_told(self) -> None:
        with pytest.raises(InvalidConfigError, match=r"no TOML: .*line 1"):
            parse("log.dirs: log")


class TestMatching:
    def test_takes_names_and_patterns(self) -> None:
        names = ["a", "log-1", "log-2", "xlog-1"]

        assert matching(names, ["log-*", "a"]) == ["a", "log-1", "log-2"]
        assert matching(names, ["A"]) == []

    @pytest.mark.parametrize(("job", "said"), [("vacuum", ["gone"]), ("retention", [])])
    def test_vacuum_alone_is_for_deleted_topics(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str, said: list[str]
    ) -> None:
        delays = {"file.delete.delay.ms": 0, "sparklog.reader.grace.ms": 0}
        for name in ("gone", "left"):
            AdminClient(tmp_path).create_topics([NewTopic(name, 1, delays)])
            AdminClient(tmp_path).delete_topics([name])
        scheduler = Scheduler(parse(f'{DIR}topics = ["g*"]'))
        for one in scheduler.config.schedules:
            if one.job.name == job:
                scheduler.run(one, str(tmp_path))

        (line,) = capsys.readouterr().out.splitlines()
        assert [step["topic"].partition("-")[0] for step in json.loads(line)["steps"]] == said
