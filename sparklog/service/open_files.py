"""Lets a service open as many files as its hard limit allows, as a JVM does (MaxFDLimit).

A connection takes two descriptors, and segments are kept open. The usual soft limit of 1,024 is for
programs that use select(); beyond it a service accepts no client, and can write no file.
"""

import resource
from contextlib import suppress


def allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one; if the system refuses, leave it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
