"""A log dir that is gone while a process uses it: its file system is not mounted any more."""

import pickle
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import LogDirError, MissingFileError
from sparklog.storage.local import LocalFiles


def test_a_write_under_way_makes_no_directory_in_its_place(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path / "log"))
    files.write_new("t/a", b"1")
    (tmp_path / "log").rename(tmp_path / "away")
    for write in (files.write_new, files.put_new, files.overwrite):
        with pytest.raises(MissingFileError, match=r"t/b in .*log: No such file or directory"):
            write("t/b", b"2")
    assert [one.name for one in tmp_path.iterdir()] == ["away"]

    (tmp_path / "away").rename(tmp_path / "log")
    files.write_new("u/b", b"2")
    assert bytes(files.read("u/b")) == b"2"


def test_nor_does_a_commit_after_one_where_others_made_the_log_dir(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path / "log"))
    (tmp_path / "log" / "t").mkdir(parents=True)
    assert files.put_new("t/a", b"1")
    (tmp_path / "log").rename(tmp_path / "away")

    with pytest.raises(MissingFileError, match=r"put t/b in .*log: No such file or directory"):
        files.put_new("t/b", b"2")
    assert [one.name for one in tmp_path.iterdir()] == ["away"]


def test_nor_does_a_task_that_starts_afterwards(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    planned = pickle.dumps(LocalFiles(str(tmp_path / "log")))
    (tmp_path / "log").rename(tmp_path / "away")

    for write in (pickle.loads(planned).write_new, pickle.loads(planned).put_new):
        with pytest.raises(MissingFileError, match=r"t/a in .*log: No such file or directory"):
            write("t/a", b"1")
    assert [one.name for one in tmp_path.iterdir()] == ["away"]


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
