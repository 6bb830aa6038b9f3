"""One commit for the segments of all writers: it gives the records their offsets."""

from collections.abc import Iterable, Sequence

from sparklog.log_writer.own_offsets import at_own_offsets
from sparklog.log_writer.plan import WritePlan
from sparklog.metadata.catalog import Catalog, Landed, Write
from sparklog.metadata.state.edit import TopicEdit
from sparklog.metadata.state.image import TopicImage, at_log_end
from sparklog.model import SegmentEntry

PRODUCE = "PRODUCE"


def commit_write(catalog: Catalog, plan: WritePlan, pending: Sequence[SegmentEntry]) -> Landed:
    """Make one topic's new segments visible in one commit, at the log end of each partition.

    Segments get their offsets in the order given, unless the plan keeps their records' own offsets.
    Raises as `Catalog.commit`, TopicClosedError if the topic was deleted,
    UnexpectedAppendOffsetError for own offsets that do not continue the log.
    """
    return catalog.commit_all([write_of(plan, pending)], operation=PRODUCE)[0]


def write_of(
    plan: WritePlan,
    pending: Sequence[SegmentEntry],
    *,
    app_id: str | None = None,
    version: int | None = None,
    is_micro_batch: bool = False,
) -> Write:
    """Return the write that `commit_write` commits, to be committed with writes of other topics.

    With `app_id` and `version` the write lands once (`Write`).
    """
    leader_epochs = plan.epochs_of(pending)
    keeps_offsets = plan.options.keeps_offsets

    def place(topic: TopicImage) -> TopicEdit:
        return TopicEdit(
            segments=(
                at_own_offsets(topic, plan, pending)
                if keeps_offsets
                else at_log_end(topic, pending)
            ),
            leader_epochs=leader_epochs,
            allow_gaps=keeps_offsets and plan.options.allow_offset_gaps,
        )

    return Write(
        topic=plan.topic,
        plan=place,
        app_id=app_id,
        version=version,
        is_micro_batch=is_micro_batch,
    )


def in_order(results: Iterable[tuple[int, Sequence[SegmentEntry]]]) -> list[SegmentEntry]:
    """Return the segments of (task, segments) in the order of their offsets: by task, then file."""
    ordered = sorted(results, key=lambda result: result[0])
    return [entry for _, entries in ordered for entry in entries]
