"""The kind of file system that a directory is on: of this machine, or reached over a network.

Each call of the second kind takes a round trip, and may take minutes if the server is gone.
"""

import os
from pathlib import PurePosixPath
from typing import Final

MOUNTS: Final = "/proc/self/mountinfo"
"""Linux's list of mounts, see proc_pid_mountinfo(5)."""
NETWORK: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
)
"""Types of file systems over a network."""
FUSE: Final = "fuse."
"""Prefix of a file system in a process: of nearly all network file systems that are not NETWORK."""
OVERLAY: Final = "fuse.fuse-overlayfs"
"""The one that containers without root have for their local files."""


def is_over_network(path: str) -> bool:
    """Whether a directory is on a file system over a network; False if that cannot be learnt."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = file.read().splitlines()
    except OSError:  # no Linux
        return False
    found, longest, target = "", 0, PurePosixPath(os.path.realpath(path))
    for line in mounts:
        before, _, after = line.partition(" - ")
        point = PurePosixPath(_unescaped(before.split()[4]))
        if target.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = after.split()[0], len(point.parts)  # the last mount covers the others
    return found in NETWORK or (found.startswith(FUSE) and found != OVERLAY)


def _unescaped(text: str) -> str:
    for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(code, character)
    return text
