"""After erase and vacuum no object of a log dir holds the key or its values, over any storage."""

import pytest

from sparklog.clock import ManualClock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import executed
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage import Files
from tests.erasing import ALICE, SECRET, erased, holding, keyed, share
from tests.logs import catalog, new_topic, rows
from tests.sweeping import sweep
from tests.tables import WITH_TABLE, build

COMPACTED = {**WITH_TABLE, "cleanup.policy": "compact", "delete.retention.ms": "86400000"}
BUILDS = 8
"""So many small files of a table are merged, and stay behind as old versions."""


def everywhere(files: Files) -> None:
    """Let her be in every kind of file: the metadata log is folded, and has edits in files."""
    new_topic(files, "t", 2, COMPACTED)
    new_topic(files, "u", 1)
    context = JobContext(catalog(files), LocalFleet())
    for _ in range(BUILDS):
        keyed(files)
        build(context)
    for step in compact(context, ["t"], {"force": True, "reindex": False}):
        executed(step)
    share(files)
    build(context)
    fold(catalog(files).log)


def kinds(paths: list[str]) -> set[str]:
    """Directory or topic, and suffix."""
    return {f"{path.partition('/')[0][:2]} {path.rpartition('.')[2]}" for path in paths}


class TestErase:
    def test_leaves_nothing_of_her(self, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.metadata.log.EDITS_BYTES_MAX", 1)
        everywhere(files)
        held, before = holding(files, ALICE, SECRET), rows(files)
        report = erased(files, ALICE)
        fold(catalog(files).log)
        sweep(files, clock=ManualClock(report.files_gone_ms))

        assert kinds(held) == {"__ log", "t- log", "t- keyindex", "t- parquet"}
        assert holding(files, ALICE, SECRET) == []
        assert rows(files) == {
            number: [row for row in some if row.key != ALICE.encode()]
            for number, some in before.items()
        }
        assert [one.path for one in files.list("__cluster_metadata/_edits")] != []
