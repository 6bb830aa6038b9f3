"""An import or an export in a process of its own, which may be killed before any of its steps.

A step is a change of files, a commit included: the interpreter's own audit reports each before it
is done.
"""

import os
import signal
import sys
from typing import Any

from sparklog.admin import AdminClient
from sparklog.fleet import LocalFleet
from sparklog.interop.exports.export_log import ExportOptions, export_into
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files

CHANGES = ("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate")


def killed_before(step: int) -> None:
    """Kill this process before its step of that number, counted from 0 on."""
    left = [step]

    def take() -> None:
        left[0] -= 1
        os.kill(os.getpid(), signal.SIGKILL if left[0] < 0 else 0)  # signal 0 is none

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            take()

    audit.__cantrace__ = True  # type: ignore[attr-defined] # or coverage does not see it run
    sys.addaudithook(audit)


def import_all(broker: str, log_dir: str, step: int | None = None) -> None:
    """Import every topic, one partition after the other."""
    if step is not None:
        killed_before(step)
    admin, catalog = AdminClient(log_dir), Catalog(open_files(log_dir))
    reports = import_log_dirs(admin, catalog, [broker], ImportOptions(), LocalFleet())
    assert {report.problem for report in reports} == {None}


def export_all(log_dir: str, target: str, step: int | None = None) -> None:
    """Export every topic into a broker's directory."""
    if step is not None:
        killed_before(step)
    export_into(Catalog(open_files(log_dir)), target, ExportOptions())
