"""The power is cut at some step: what was acknowledged is there afterwards, and work goes on."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from tests.appends import Appender
from tests.client_batches import client_batch
from tests.logs import FOREVER, values
from tests.power import CuttableFiles, PowerCutError
from tests.soak.power_cut import cut_and_go_on, mend
from tests.soak.setup import TOPIC


class TestAPowerCut:
    @pytest.mark.parametrize("seed", range(8))
    def test_takes_nothing_that_was_acknowledged(self, tmp_path: Path, seed: int) -> None:
        found = cut_and_go_on(tmp_path, seed)

        assert found == []
        assert TOPIC in AdminClient(tmp_path / "log").list_topics()


class TestAPowerCutOfAGateway:
    """Groups of a second lie in one file, whose end may be torn."""

    GROUPS = "abcde"
    STEPS = 4 * len(GROUPS)

    def restored(self, files: CuttableFiles, log_dir: Path) -> str:
        """The log dir that the power cut has left, repaired."""
        for path, data in files.survivors().items():
            (log_dir / path).parent.mkdir(parents=True, exist_ok=True)
            (log_dir / path).write_bytes(data)
        mend(str(log_dir))
        return str(log_dir)

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("steps", range(STEPS + 1))
    def test_takes_no_group_that_was_acknowledged(
        self, tmp_path: Path, steps: int, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = CuttableFiles(str(tmp_path / "log"), -1, random.Random(seed))
        monkeypatch.setattr("sparklog.admin.client.open_files", lambda *_: files)
        AdminClient("log").create_topics([NewTopic("t", 2, FOREVER)])
        monkeypatch.undo()
        world = Appender("log", files, flush=True)
        acknowledged = 0
        files.cut_after(steps)
        with suppress(PowerCutError):
            for value in self.GROUPS:
                world.append(("t", 0, client_batch(value)), ("t", 1, client_batch(value)))
                acknowledged += 1
        left = self.restored(files, tmp_path / "left")

        first, second = values(left).get(0, []), values(left).get(1, [])
        assert first == second == list(self.GROUPS[: len(first)])
        assert len(first) >= acknowledged
        assert Appender(left, flush=True).append(("t", 0, client_batch("z"))) == [len(first)]
