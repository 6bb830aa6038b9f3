"""docs/migrating-from-kafka.md against the code: every option of its table does what it says."""

import re
from pathlib import Path

import pytest

from sparklog.config.connector import IGNORED_OPTIONS, without_connector_options
from sparklog.config.options import CONSUME_OPTIONS, SOURCE_OPTIONS, STREAM_OPTIONS
from sparklog.errors import SparklogWarning

PAGE = (Path(__file__).parents[3] / "docs" / "migrating-from-kafka.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\S+)` \| (\w+) \|", PAGE, re.MULTILINE)
OURS_ALONE = {"columns", "versionAsOf", "timestampAsOf", "groupId", "auto.offset.reset"}

VALUES = {"kafka.compression.type": "zstd", "kafka.batch.size": "1"}


class TestTable:
    @pytest.mark.parametrize("name", [name for name, kind in ROWS if kind == "none"])
    def test_what_means_nothing_is_ignored_with_a_warning(self, name: str) -> None:
        with pytest.warns(SparklogWarning, match=name):
            assert without_connector_options({name: "x"}) == {}

    @pytest.mark.parametrize("name", [name for name, kind in ROWS if kind != "none"])
    def test_what_means_something_is_an_option(self, name: str) -> None:
        (kept,) = without_connector_options({name: VALUES.get(name, "x")})

        assert kept in {option.name for option in SOURCE_OPTIONS}

    def test_has_every_option_of_a_read(self) -> None:
        options = {option.name for option in (*CONSUME_OPTIONS, *STREAM_OPTIONS)}

        assert {name for name, _ in ROWS} >= (options - OURS_ALONE) | set(IGNORED_OPTIONS)


class TestPage:
    def test_names_every_option(self) -> None:
        named = set(re.findall(r"`(?:kafka\.)?([\w.]+)`", PAGE))

        assert {option.name for option in SOURCE_OPTIONS} <= named
