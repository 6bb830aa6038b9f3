"""Repairs a log: puts the damaged file aside, and writes its sound batches to a new segment.

    quarantine/<partition dir>/<name>.log      a second name (or a copy) of the damaged file
    a new segment for the same offsets         the sound batches, unchanged; no segment without
                                               any, nor from the file of another segment
    one commit                                 replaces the old row by the new row

No file is deleted here. Vacuum unlinks the old name after its delay. The file in quarantine stays
until an operator deletes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from sparklog.clock import Clock
from sparklog.errors import ExistingFileError
from sparklog.log.names import QUARANTINE
from sparklog.log.roll import RollPolicy
from sparklog.log.salvage import sound_windows
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log.windows import Window
from sparklog.log_reader.opened import log_path, opened
from sparklog.log_writer.segment_file import SegmentFile
from sparklog.maintenance.merging.merged import same_log
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.edit import Done, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.record.batches import byte_view
from sparklog.storage.files import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageWork:
    """The work of a task.

    `is_missing`: the file does not exist, so there is nothing to put aside. `is_anothers`: it is
    the file of another segment, so no batch is taken.
    """

    files: Files
    clock: Clock
    topic: TopicDescription
    entry: SegmentEntry
    index_interval_bytes: int
    is_missing: bool
    is_anothers: bool = False


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The successor of a damaged segment; `segment` is None if it has no sound batch of its own.

    `quarantined` is the path of the file that was put aside, None if there was none.
    """

    damaged: SegmentEntry
    segment: SegmentEntry | None
    quarantined: str | None


def salvaged(work: SalvageWork) -> Salvaged:
    """Put a damaged `.log` aside and write its sound batches to a new segment, both durably.

    The caller commits the result (`commit_salvaged`).
    """
    if work.is_missing:
        return Salvaged(work.entry, None, None)
    directory = topic_directory(work.topic)
    target = f"{directory}/{QUARANTINE}/{work.entry.log_path}"
    with suppress(ExistingFileError):  # put aside by a run that died
        work.files.link_or_copy(log_path(directory, work.entry), target)
    work.files.sync([target])
    segment = None if work.is_anothers else _written(work, directory)
    return Salvaged(work.entry, segment, target)


def _written(work: SalvageWork, directory: str) -> SegmentEntry | None:
    entry = work.entry
    policy = RollPolicy(index_interval_bytes=work.index_interval_bytes)
    builder = SegmentBuilder(entry.file_base_offset, entry.partition, policy)
    target = SegmentFile(work.files, work.topic, builder, work.clock.now_ms())
    try:
        for part in sound_windows(opened(work.files, directory, entry)):
            if isinstance(part, Window):
                start, end = part.batches.position[0], part.batches.end_position[-1]
                target.append(part.batches, byte_view(part.data)[int(start) : int(end)])
    except BaseException:
        target.abort()
        raise
    if not builder.batch_count:
        target.abort()
        return None
    row = target.close(work.clock.now_ms())
    work.files.sync(target.paths)
    times = (row.min_timestamp, entry.min_timestamp)
    return row._replace(
        base_offset=entry.base_offset,
        next_offset=entry.next_offset,
        min_timestamp=min(time for time in times if time is not None),
        aborted=entry.aborted,
        delete_horizon_ms=entry.delete_horizon_ms,
        txn_index_path=entry.txn_index_path,
        txn_index_bytes=entry.txn_index_bytes,
        created_ms=entry.created_ms,
    )


def commit_salvaged(
    catalog: Catalog,
    topic: TopicDescription,
    salvages: Sequence[Salvaged],
    removed_ms: int | None = None,
) -> Sequence[Salvaged]:
    """Swap the rows in one commit; return those whose old row was still live and unchanged.

    The old rows count as removed at `removed_ms` (None: at the time of the commit).
    """
    landed: list[Salvaged] = []

    def plan(image: TopicImage) -> TopicEdit | Done:
        live = image.find(one.damaged.key for one in salvages)
        landed[:] = [
            one
            for one in salvages
            if one.damaged.key in live and same_log(live[one.damaged.key], one.damaged)
        ]
        if not landed:
            return Done()
        return TopicEdit(
            segments=[one.segment for one in landed if one.segment is not None],
            remove=[one.damaged.key for one in landed],
            removed_ms=removed_ms,
        )

    if salvages:
        catalog.commit(topic, plan, operation="REPAIR")
    return landed
