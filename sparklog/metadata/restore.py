"""A restored copy of a log dir becomes a log dir of its own.

The copy has the entries of its original, so both would go on as the same log. `restore` puts an
entry that begins another incarnation, and gives the copy a new cluster id. A process that followed
the original and then finds the copy gets an error that says so.
"""

import os

from sparklog.clock import Clock
from sparklog.log.names import random_uuid
from sparklog.metadata.log import MetadataLog
from sparklog.storage.files import Files
from sparklog.storage.log_dir import LogDir, open_log_dir, replace_log_dir


def restore(files: Files, clock: Clock) -> LogDir:
    """Give a restored log dir a new incarnation and a new cluster id; return its meta.properties.

    Raises LogDirError if the directory is no log dir, CorruptMetadataError if its metadata cannot
    be read, and as `MetadataLog.commit` does.
    """
    open_log_dir(files)
    MetadataLog(files, clock).begin_incarnation(random_uuid(os.urandom(16)))
    return replace_log_dir(files, os.urandom(16))
