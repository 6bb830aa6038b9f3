"""The log of a new log dir: made once, durably, and only where a put keeps its condition."""

from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import StorageError
from sparklog.metadata.log import MetadataLog
from sparklog.storage.memory import MemoryFiles
from tests.metadata_language import new_log


class TestCreate:
    def test_making_it_twice_is_once(self) -> None:
        files = MemoryFiles()
        log_id = new_log(files).log_id
        again = MetadataLog.create(files, ManualClock())

        assert (again.log_id, again.image().version) == (log_id, 1)

    def test_is_durable(self) -> None:
        files = MemoryFiles()
        MetadataLog.create(files, ManualClock())
        files.lose_unsynced()

        assert MetadataLog(files, ManualClock()).image().version == 0

    def test_a_store_that_overwrites_is_refused(self) -> None:
        class Overwriting(MemoryFiles):
            def put_new(self, path: str, data: Any, **_: Any) -> bool:
                self.overwrite(path, data)
                return True

        with pytest.raises(StorageError, match="does not keep put-if-absent"):
            MetadataLog.create(Overwriting(), ManualClock())
