"""Leftovers: files of the log dir's own that no entry names, now or later.

    _runs, _history, _cuts   of a fold that was killed before its commit: they end behind the newest
                             cover. (`clean` deletes those that end before it.)
    _edits                   of a commit that was killed before its entry, behind the newest version
    .tmp-…                   of a small file that was killed before it got its name, also of a sign
                             of life (`__gateways`)

They may be deleted if they were made before the log dir's horizon: `state.check` refuses an edit
that names an older file. Files of other names, and files that repair put aside, are no leftovers.
"""

from collections.abc import Iterator

from sparklog.log.names import CLUSTER_METADATA, GATEWAYS, uuid7_ms
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import CUTS, EDITS, EDITS_NAME, HISTORY, RUN_NAME, RUNS, last_part
from sparklog.metadata.state.image import Image
from sparklog.storage.files import Files
from sparklog.storage.local import TEMPORARY


def leftovers(log: MetadataLog, image: Image | None = None) -> dict[str, int]:
    """Return the files that vacuum may delete, once the log dir's horizon is committed.

    Each path has the time (ms) when the file was made.

    They are the leftovers of the newest image. Another image shows which files vacuum could delete
    after a later horizon.
    """
    image = log.image() if image is None else image
    return dict(sorted([*_temporary(log.files, image), *_unnamed(log.files, image)]))


def _temporary(files: Files, image: Image) -> Iterator[tuple[str, int]]:
    for directory in (CLUSTER_METADATA, GATEWAYS):
        for stat in files.list(directory, recursive=True):
            if last_part(stat.path).startswith(TEMPORARY) and stat.modified_ms < image.horizon_ms:
                yield stat.path, stat.modified_ms


def _unnamed(files: Files, image: Image) -> Iterator[tuple[str, int]]:
    named = {f"{CLUSTER_METADATA}/{run.path}" for run in (*image.fold.runs, *image.fold.history)}
    for directory, pattern, end in (
        (RUNS, RUN_NAME, image.fold.cover),
        (HISTORY, RUN_NAME, image.fold.cover),
        (CUTS, RUN_NAME, image.fold.cover),
        (EDITS, EDITS_NAME, image.version),
    ):
        for stat in files.list(f"{CLUSTER_METADATA}/{directory}"):
            match = pattern.fullmatch(last_part(stat.path))
            if match is None or stat.path in named:
                continue
            *numbers, uuid = match.groups()
            if int(numbers[-1]) > end and uuid7_ms(uuid) < image.horizon_ms:
                yield stat.path, uuid7_ms(uuid)
