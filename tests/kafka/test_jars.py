"""Where the jars are looked for, and what is said when they are nowhere."""

from pathlib import Path

import pytest

from tests.kafka.jars import KAFKA, JarSet, JarsUnavailableError, cache_dir, class_path, jars

pytestmark = pytest.mark.kafka

NOWHERE = JarSet("nothing", ("sparklog.example:no-such-artifact:1",))


class TestJars:
    def test_include_the_broker_and_its_dump_tool(self) -> None:
        names = [jar.name for jar in jars(KAFKA)]

        assert "kafka_2.13-4.1.1.jar" in names
        assert all(name in class_path(KAFKA) for name in names)

    def test_are_kept_where_the_environment_says(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("SPARKLOG_CACHE", str(tmp_path))
        (tmp_path / "nothing" / "libs").mkdir(parents=True)
        (tmp_path / "nothing" / "libs" / "one.jar").touch()

        assert cache_dir() == tmp_path
        assert [jar.name for jar in jars(NOWHERE)] == ["one.jar"]

    def test_are_not_fetched_offline(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("SPARKLOG_CACHE", str(tmp_path))
        monkeypatch.setenv("SPARKLOG_OFFLINE", "1")

        with pytest.raises(JarsUnavailableError, match="SPARKLOG_OFFLINE=1 forbids to fetch"):
            jars(NOWHERE)

    def test_that_cannot_be_fetched_are_named(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("SPARKLOG_CACHE", str(tmp_path))
        monkeypatch.setattr("tests.kafka.jars._run_ivy", lambda jar_set, scratch: "no network")

        with pytest.raises(JarsUnavailableError, match="(?s)cannot fetch sparklog.*no network"):
            jars(NOWHERE)
        assert not (tmp_path / "nothing" / "libs").exists()
