"""The power is cut at some step: what was acknowledged is there afterwards, and work goes on."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from tests.soak.power_cut import cut_and_go_on
from tests.soak.setup import TOPIC


class TestAPowerCut:
    @pytest.mark.parametrize("seed", range(8))
    def test_takes_nothing_that_was_acknowledged(self, tmp_path: Path, seed: int) -> None:
        found = cut_and_go_on(tmp_path, seed)

        assert found == []
        assert TOPIC in AdminClient(tmp_path / "log").list_topics()
