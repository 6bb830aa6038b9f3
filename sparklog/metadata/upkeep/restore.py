"""A restored copy of a log dir becomes a log dir of its own.

The copy has the entries of its original, so both would seem to be the same log. `restore` puts an
entry that begins another incarnation, and gives the copy a new cluster id. A process that followed
the original and now reads the copy gets an error that says so. The same entry removes the gateways
of the original: else a gateway of the copy would send its clients to them, for ten seconds.

A copy that was made while commits went on may lack an entry and have a later one, because a listing
is no snapshot. Such a copy is refused: its log would end at the hole, and later at the old entries.
So is a copy that has a fold and lacks a file that the fold names.

The hints of such a copy may be newer or older than its entries, and name a fold that it lacks. They
are written anew, as `repair` does: else `verify` would report them.
"""

import os
from collections.abc import Callable

from sparklog.clock import Clock
from sparklog.errors import CorruptMetadataError, LogDirError
from sparklog.log.names import CLUSTER_METADATA, random_uuid
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import entry_path
from sparklog.metadata.upkeep.diagnosis import Diagnosis, diagnose
from sparklog.metadata.upkeep.repair import lead_to_newest_fold
from sparklog.storage.files import Files
from sparklog.storage.log_dir import META_PROPERTIES, LogDir, open_log_dir, replace_log_dir


def restore(files: Files, clock: Clock, tell: Callable[[str], None] = lambda _: None) -> LogDir:
    """Give a restored log dir a new incarnation and a new cluster id; return meta.properties.

    `tell` gets a line for each file that was put aside or written anew, before the next action.
    Raises LogDirError if the directory is no log dir, CorruptMetadataError if its metadata cannot
    be read or lacks an entry, and as `MetadataLog.commit` does.
    """
    if files.stat(META_PROPERTIES) is None:
        raise LogDirError(
            f"{files.uri} is no copy of a log dir: it has no {META_PROPERTIES}; copy the whole log "
            f"dir there, {CLUSTER_METADATA} last, and then restore"
        )
    open_log_dir(files)
    found = _whole(files, clock)
    for note in lead_to_newest_fold(files, clock, found):
        tell(note)
    MetadataLog(files, clock).begin_incarnation(random_uuid(os.urandom(16)))
    return replace_log_dir(files, os.urandom(16))


def _whole(files: Files, clock: Clock) -> Diagnosis:
    """Return the diagnosis of the metadata log.

    Raises CorruptMetadataError if entries are behind a hole, or lack a file that they name.
    """
    found = diagnose(files, clock)
    if found.log is not None and max(found.entries) > found.log.last:
        raise CorruptMetadataError(
            f"{entry_path(found.log.last + 1)} is missing or damaged, and there are later entries: "
            f"copy the metadata log again, and then restore"
        )
    if found.damaged:
        raise CorruptMetadataError(
            f"{CLUSTER_METADATA}/{min(found.damaged)} is missing or damaged, and a fold names it: "
            f"copy the metadata log again, or run sparklog verify --repair, and then restore"
        )
    return found
