"""The files of all writers to offsets, in one commit."""

from collections.abc import Iterable, Sequence

from sparklog.log_writer.own_offsets import at_own_offsets
from sparklog.log_writer.plan import WritePlan
from sparklog.manifest.store import Change, Committed, Done, ManifestStore, Snapshot, at_log_end
from sparklog.model import SegmentEntry


def is_committed(store: ManifestStore, app_id: str, version: int) -> bool:
    """Whether a write with this id has landed: asked before the work of writing is done."""
    return store.commit(lambda _: Done(), app_id=app_id, version=version).replayed


def commit_write(
    store: ManifestStore,
    plan: WritePlan,
    pending: Sequence[SegmentEntry],
    *,
    app_id: str | None = None,
    version: int | None = None,
) -> Committed:
    """Make what was written visible in one commit, at the log end of each partition.

    Segments get their offsets in the order given, or keep those that their records bring if the
    plan says so. With `app_id` and `version` this happens once. Raises what `ManifestStore.commit`
    raises; TopicClosedError when the topic is being deleted; UnexpectedAppendOffsetError for
    offsets that do not continue the log.
    """
    partitions = {entry.partition for entry in pending}

    def place(snapshot: Snapshot) -> Change:
        keeps_offsets = plan.options.keeps_offsets
        return Change(
            segments=(
                at_own_offsets(snapshot, plan, pending)
                if keeps_offsets
                else at_log_end(snapshot, pending)
            ),
            leader_epochs=dict.fromkeys(partitions, plan.leader_epoch),
            allow_gaps=keeps_offsets and plan.options.allow_offset_gaps,
            partition_count=plan.topic.num_partitions,
        )

    return store.commit(place, app_id=app_id, version=version)


def in_order(results: Iterable[tuple[int, Sequence[SegmentEntry]]]) -> list[SegmentEntry]:
    """Return the segments of (task, segments) in the order they get offsets: task, then file."""
    ordered = sorted(results, key=lambda result: result[0])
    return [entry for _, entries in ordered for entry in entries]
