"""Backups of a log dir, restored while its table has gone on."""

import shutil
from pathlib import Path

from sparklog.clock import SystemClock
from sparklog.metadata.upkeep.restore import restore
from sparklog.storage import open_files


def restored(log_dir: str, copy: Path) -> str:
    """Copy a log dir, segments first, and restore it; return the copy."""
    return _restore(shutil.copytree(log_dir, copy))


def restored_behind_its_table(log_dir: str, backup: str) -> str:
    """Restore a backup with the tables of its original, which are newer; return the backup."""
    for table in Path(log_dir).glob("*/table"):
        target = Path(backup) / table.relative_to(log_dir)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(table, target)
    return _restore(backup)


def _restore(log_dir: str | Path) -> str:
    restore(open_files(str(log_dir)), SystemClock())
    return str(log_dir)
