"""Fixtures of the contract suites: one suite, all implementations."""

from pathlib import Path

import pytest

from sparklog.storage import open_files
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.emulators import azure_log_dir, azurite, fake_gcs, gcs_log_dir, gcs_proxy
from tests.s3 import S3LogDir, s3_log_dir, s3_server

__all__ = [
    "azure_log_dir",
    "azurite",
    "fake_gcs",
    "gcs_log_dir",
    "gcs_proxy",
    "s3_log_dir",
    "s3_server",
]


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.s3)])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """An empty log dir, over any storage."""
    match request.param:
        case "memory":
            return MemoryFiles()
        case "local":
            return LocalFiles(str(tmp_path))
        case _:
            log_dir: S3LogDir = request.getfixturevalue("s3_log_dir")
            return open_files(log_dir.uri, log_dir.options)
