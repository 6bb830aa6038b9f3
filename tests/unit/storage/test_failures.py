import errno

import pytest

from sparklog.errors import (
    ExistingFileError,
    MissingFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)
from sparklog.storage.failures import os_errors


def raised(error: OSError, path: str = "t/a.log") -> StorageError:
    with pytest.raises(StorageError) as caught, os_errors("write", path, "/data/log"):
        raise error
    return caught.value


class TestOsErrors:
    @pytest.mark.parametrize(
        ("number", "kind"),
        (
            (errno.ENOENT, MissingFileError),
            (errno.EEXIST, ExistingFileError),
            (errno.ENOSPC, StorageFullError),
            (errno.EDQUOT, StorageFullError),
            (errno.EACCES, StoragePermissionError),
            (errno.EPERM, StoragePermissionError),
            (errno.EROFS, StoragePermissionError),
            (errno.ENOTDIR, StorageError),
            (errno.EIO, StorageError),
        ),
        ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
    )
    def test_gives_each_number_its_kind(self, number: int, kind: type[StorageError]) -> None:
        assert type(raised(OSError(number, "what the system says"))) is kind

    def test_says_what_was_done_to_which_path_of_which_log_dir(self) -> None:
        error = raised(OSError(errno.ENOSPC, "", "/data/log/t/a.log"))

        assert str(error) == "cannot write t/a.log in /data/log: No space left on device"
        assert error.__dict__ == {"operation": "write", "path": "t/a.log", "log_dir": "/data/log"}
        assert isinstance(error.__cause__, OSError)

    def test_names_the_log_dir_alone_when_that_is_the_path(self) -> None:
        assert str(raised(OSError(errno.EIO, ""), path="")) == (
            "cannot write /data/log: Input/output error"
        )

    def test_passes_on_the_reason_of_an_error_without_a_number(self) -> None:
        error = raised(OSError("rmtree met a symbolic link"))

        assert str(error).endswith(": rmtree met a symbolic link")

    def test_lets_all_other_errors_through(self) -> None:
        with pytest.raises(KeyError), os_errors("write", "a", "/data/log"):
            raise KeyError
