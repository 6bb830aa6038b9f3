"""Every implementation of Files, for suites that are run over each of them."""

from pathlib import Path

import pytest

from sparklog.storage import Files, open_files
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.s3 import S3LogDir
from tests.tracing import TracingFiles

IMPLEMENTATIONS = [
    "local",
    "memory",
    "traced",
    pytest.param("s3", marks=pytest.mark.s3),
    pytest.param("azure", marks=pytest.mark.azure),
    pytest.param("gcs", marks=pytest.mark.gcs),
]


def empty_log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """An empty log dir; where there are directories at all, one that does not exist yet."""
    match request.param:
        case "local":
            return LocalFiles(str(tmp_path / "log dir"))
        case "memory":
            return MemoryFiles()
        case "traced":
            return TracingFiles(LocalFiles(str(tmp_path / "log dir")))
        case store:
            log_dir: S3LogDir = request.getfixturevalue(f"{store}_log_dir")
            return open_files(log_dir.uri, log_dir.options)


def paths(files: Files, directory: str = "", *, recursive: bool = False) -> list[str]:
    """The paths of all files of a directory."""
    return [stat.path for stat in files.list(directory, recursive)]
