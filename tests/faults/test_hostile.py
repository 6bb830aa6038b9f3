"""A hostile directory: each partition refused with file and position, the others taken.

All of it in a process that may not take more memory than a few large batches need.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.crash.producer import in_process
from tests.faults.hostile import LOG, bounded_dump, bounded_import, cases, write_broker
from tests.logs import rows


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "broker"
    write_broker(path)
    return path


def answered(answer: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


class TestImport:
    def test_refuses_with_file_and_position_and_goes_on(self, broker: Path, tmp_path: Path) -> None:
        log_dir, answer = str(tmp_path / "log"), tmp_path / "answer"
        assert in_process(bounded_import, str(broker), log_dir, str(answer)) == 0

        problems = answered(answer)
        for case in cases():
            problem = problems.pop(f"{case.name}-0")
            assert re.match(re.escape(f"{broker}/{case.name}-0") + case.says, problem), problem
            assert 0 not in rows(log_dir, case.name)
        assert problems == {"many-0": None, "overlap-1": None, "sound-0": None}
        assert len(rows(log_dir, "many")[0]) == len(rows(log_dir, "overlap")[1]) == 2


class TestDump:
    def test_ends_with_an_error(self, broker: Path, tmp_path: Path) -> None:
        answer = tmp_path / "answer"
        assert in_process(bounded_dump, str(broker), str(answer)) == 0

        found = answered(answer)
        sound = {name for name, (code, _) in found.items() if code == 0}
        # Kafka's tool, too, takes what has another magic for a batch, and looks at one file.
        assert sound == {"sound-0", "many-0", "overlap-0", "astray-0", "huge-0", "lies.magic-9-0"}
        for name in ("GZIP", "SNAPPY", "LZ4", "ZSTD", "messages"):
            folder = f"bomb.{name}-0"
            assert f"{broker}/{folder}/{LOG}, position 0: decompressed size" in found[folder][1]
