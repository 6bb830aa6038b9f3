"""A log dir that is gone while a process uses it: its file system is not mounted any more."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import LogDirError


def test_no_other_is_made_in_its_place(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    admin = AdminClient(log_dir)
    admin.create_topics([NewTopic("t")])
    log_dir.rename(tmp_path / "unmounted")
    log_dir.mkdir()

    with pytest.raises(LogDirError, match="the log dir that was here is gone"):
        admin.create_topics([NewTopic("a")])
    assert [*log_dir.iterdir()] == []

    log_dir.rmdir()
    (tmp_path / "unmounted").rename(log_dir)
    admin.create_topics([NewTopic("a")])
    assert admin.list_topics() == ["a", "t"]
