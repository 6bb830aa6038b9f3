"""What the contract suite cannot reach without a network: how pyarrow's errors are read."""

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from sparklog.errors import (
    MissingFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)
from sparklog.storage.arrow_fs import ArrowFiles, ArrowNewFile
from sparklog.storage.settings import StorageOptions

SECRETS = StorageOptions({"AWS_ACCESS_KEY_ID": "AKIAID", "AWS_SECRET_ACCESS_KEY": "s3cret"})


@pytest.fixture
def files(tmp_path: Path) -> ArrowFiles:
    inner = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    return ArrowFiles("s3://bucket/log", SECRETS, inner)


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "kind"),
        (
            (FileNotFoundError(errno.ENOENT, "Path does not exist"), MissingFileError),
            (OSError(errno.ENOSPC, "No space left on device"), StorageFullError),
            (PermissionError(errno.EACCES, "Permission denied"), StoragePermissionError),
            (OSError("AWS Error ACCESS_DENIED during HeadObject"), StoragePermissionError),
            (OSError("AWS Error INVALID_ACCESS_KEY_ID during PutObject"), StoragePermissionError),
            (OSError("AWS Error SIGNATURE_DOES_NOT_MATCH"), StoragePermissionError),
            (OSError("AWS Error NETWORK_CONNECTION during HeadObject"), StorageError),
            (OSError("AWS Error NO_SUCH_BUCKET during PutObject"), StorageError),
            (pa.ArrowInvalid("Empty path"), StorageError),
        ),
        ids=lambda value: str(value)[:40] if isinstance(value, Exception) else "",
    )
    def test_are_told_apart(
        self, files: ArrowFiles, error: Exception, kind: type[StorageError]
    ) -> None:
        with pytest.raises(StorageError) as caught, files.errors("read", "t/a.log"):
            raise error

        assert type(caught.value) is kind
        assert str(caught.value) == f"cannot read t/a.log in s3://bucket/log: {error}"

    def test_show_no_secret_not_even_as_the_cause(self, files: ArrowFiles) -> None:
        with pytest.raises(StorageError) as caught, files.errors("read", "a"):
            raise OSError("AWS Error: AKIAID signed with s3cret")

        assert str(caught.value).endswith("AWS Error: *** signed with ***")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_of_a_python_program_pass(self, files: ArrowFiles) -> None:
        with pytest.raises(KeyError), files.errors("read", "a"):
            raise KeyError


class BrokenStream:
    """An upload whose connection is gone."""

    def write(self, _: Any) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION during UploadPart")

    def close(self) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION during CompleteMultipartUpload")


class BrokenStore:
    """A store whose connection is gone."""

    def __init__(self) -> None:
        self.asked_to_delete: list[str] = []

    def delete_file(self, path: str) -> None:
        self.asked_to_delete.append(path)
        raise OSError("AWS Error NETWORK_CONNECTION during HeadObject")


class TestNewFile:
    @pytest.fixture
    def file(self, files: ArrowFiles) -> ArrowNewFile:
        return ArrowNewFile("t/a.log", files, BrokenStream())

    def test_a_write_that_fails_tells_the_first_error(self, file: ArrowNewFile) -> None:
        with pytest.raises(StorageError, match="cannot write t/a.log in .*UploadPart"):
            file.write(b"x")

        assert file.bytes_written == 0

    def test_a_close_that_fails_deletes_what_may_have_appeared(
        self, file: ArrowNewFile, files: ArrowFiles
    ) -> None:
        files.write_new("t/a.log", b"half of it")

        with pytest.raises(StorageError, match="cannot close t/a.log in .*CompleteMultipart"):
            file.close()

        assert files.stat("t/a.log") is None

    def test_what_cannot_be_deleted_is_left_to_vacuum(
        self, file: ArrowNewFile, files: ArrowFiles
    ) -> None:
        files._opened = BrokenStore()

        file.abort()

        assert files._opened.asked_to_delete == ["t/a.log"]
