"""Whether a directory is on a file system over a network."""

from pathlib import Path

import pytest

from sparklog.storage import mounts
from sparklog.storage.mounts import is_over_network

LINES = r"""22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
30 22 0:40 / /lake rw,relatime shared:5 master:2 - nfs4 server:/export rw,vers=4.2
31 30 254:2 / /lake/local rw - xfs /dev/vdb rw
32 22 0:41 / /my\040share rw - cifs //server/share rw
33 22 0:42 / /bucket rw - fuse.s3fs s3fs rw
34 22 0:43 / /over rw - nfs server:/a rw
36 22 0:43 / /rootless rw - fuse.fuse-overlayfs fuse-overlayfs rw
35 22 254:3 / /over rw - ext4 /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("path", "is_network"),
    [
        ("/data/log", False),
        ("/lake", True),
        ("/lake/a/log", True),
        ("/lake2/log", False),
        ("/lake/local/log", False),
        ("/my share/log", True),
        ("/bucket/log", True),
        ("/over/log", False),
        ("/rootless/log", False),
    ],
)
def test_the_innermost_and_newest_mount_counts(
    path: str, is_network: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "mountinfo"
    listed.write_text(LINES)
    monkeypatch.setattr(mounts, "MOUNTS", str(listed))
    assert is_over_network(path) == is_network


def test_a_system_without_the_list_has_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "MOUNTS", str(tmp_path / "no"))
    assert not is_over_network("/lake")


def test_the_kernels_own_files_are_here() -> None:
    assert not is_over_network("/proc/self")
