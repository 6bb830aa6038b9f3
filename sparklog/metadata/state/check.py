"""The rules of edits: an edit that passes `check` on an image may be committed on it.

Every try checks the edit on the image that its plan saw. That image has every commit before this
one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Final

import numpy as np

from sparklog.errors import (
    CommitConflictError,
    DuplicateBrokerRegistrationError,
    FencedLeaderEpochError,
    ForgottenTopicError,
    LateWriterError,
    OffsetOutOfRangeError,
    TopicClosedError,
    TopicExistsError,
    UnsupportedFeatureError,
    UsageError,
)
from sparklog.log.names import OFFSET_MAX, born_ms
from sparklog.metadata.state.cluster import NODE_ID_MAX, SCRAM_MECHANISMS
from sparklog.metadata.state.edit import (
    ALL_FILES_MS,
    FEATURE_LEVEL,
    Edit,
    FoldEdit,
    PartitionState,
    TopicEdit,
)
from sparklog.metadata.state.image import Image, TopicImage, shared_slices
from sparklog.metadata.state.segment_tables import PATH_COLUMNS
from sparklog.metadata.state.segments import Spans
from sparklog.model import SHARED_PREFIX, SegmentEntry, SegmentKey

Span = tuple[int, int]


def check(image: Image, edit: Edit, *, skips_topics: bool = False) -> None:
    """Refuse an edit that the image does not allow (any more).

    With `skips_topics` the topics are not checked: they have passed `check_topic` on this image.

    - TopicClosedError, TopicExistsError, ForgottenTopicError (no such topic).
    - LateWriterError: files that may be gone, a shared segment that is used up.
    - FencedLeaderEpochError: a leader epoch rose since the plan.
    - CommitConflictError: a segment to replace or remove is not live, a segment to add was removed,
      a fold is based on an old fold, a shared segment to forget is in use, a topic to erase is not
      deleted, a topic to forget is not erased, a broker to remove was started again.
    - OffsetOutOfRangeError: offsets do not continue the log, or exceed an int64, or a log start is
      behind the log end.
    - DuplicateBrokerRegistrationError: another incarnation holds the node id.
    - UsageError: a replacement has other offsets, a topic to forget has slices of shared segments,
      a user has an unknown mechanism, a transaction to add to is not open.
    - UnsupportedFeatureError: the log dir is of a newer release.
    """
    level = max(image.level, edit.level or 0)
    if level > FEATURE_LEVEL:
        raise UnsupportedFeatureError(
            f"the log dir has feature level {level}; this release commits to level "
            f"{FEATURE_LEVEL}: upgrade sparklog"
        )
    _check_names(image, edit)
    for topic_id, of_topic in () if skips_topics else edit.topics.items():
        _check_parts(image, topic_id, of_topic)
    for topic_id in edit.forget_topics:
        _check_forgotten(image, topic_id, edit)
    if edit.fold is not None:
        _check_fold(image, edit.fold)
    if edit.forget_shared or not skips_topics:
        _check_shared(image, edit.topics.values(), edit.forget_shared)
    _check_brokers(image, edit)
    _check_users(edit)
    _check_added(image, edit)


def _check_added(image: Image, edit: Edit) -> None:
    for name in edit.added_to_transactions:
        known = edit.transactional_ids.get(name, image.transactional_ids.get(name))
        if known is None or not known.is_open:
            raise UsageError(f"transactional id {name!r} has no open transaction to add to")


def check_topic(image: Image, topic_id: str, edit: TopicEdit) -> None:
    """Refuse an edit of a topic that exists, as `check` does if the commit edits nothing else."""
    _check_parts(image, topic_id, edit)
    _check_shared(image, [edit], ())


def _check_names(image: Image, edit: Edit) -> None:
    """Refuse a second topic of a name, and a description under the id of another topic."""
    given: dict[str, str] = {}
    for topic_id, of_topic in edit.topics.items():
        description = of_topic.description
        if description is None:
            continue
        if description.topic_id != topic_id:
            raise UsageError(f"topic {topic_id}: the description has id {description.topic_id}")
        if description.deleted_ms is not None:
            continue
        holder = image.names.get(description.name)
        is_freed = holder is not None and _is_deleted_by(edit, holder.topic_id)
        other = topic_id if holder is None or is_freed else holder.topic_id
        if other != topic_id or given.setdefault(description.name, topic_id) != topic_id:
            raise TopicExistsError(f"topic {description.name!r} exists already")


def _is_deleted_by(edit: Edit, topic_id: str) -> bool:
    of_topic = edit.topics.get(topic_id)
    description = None if of_topic is None else of_topic.description
    return description is not None and description.deleted_ms is not None


def _check_parts(image: Image, topic_id: str, edit: TopicEdit) -> None:
    topic = image.topic(topic_id)
    if topic is None:
        if edit.description is None:
            raise ForgottenTopicError(f"topic {topic_id}: there is no such topic (any more)")
        topic = TopicImage(edit.description, image.version)
    _check_deletion(topic, edit)
    if not (edit.segments or edit.replace or edit.remove or edit.partitions or edit.leader_epochs):
        return
    for partition, epoch in edit.leader_epochs.items():
        current = topic.partition(partition).leader_epoch
        if current > epoch:
            raise FencedLeaderEpochError(
                f"partition {partition}: planned with leader epoch {epoch}, it is {current} now"
            )
    removed, ends = _removed(topic, edit), dict[int, int]()
    if edit.segments or edit.replace:
        _check_replacements(topic, edit.replace)
        _check_ages(topic, image.horizon_ms, edit)
        ends = _check_offsets(topic, edit, removed)
    _check_starts(topic, edit, ends)


def _check_deletion(topic: TopicImage, edit: TopicEdit) -> None:
    """Refuse to erase a live topic. A deleted topic may only be cleared, erased or undeleted.

    The edit that undeletes it may append, too: it aborts transactions. Vacuum commits that it
    erases a topic before it deletes the first file. From then on the topic cannot come back.
    """
    name = topic.description.name
    if topic.deleted_ms is None:
        if edit.vacuum_horizon_ms == ALL_FILES_MS:
            raise CommitConflictError(f"topic {name!r} is not deleted (any more): its files stay")
        return
    is_restored = edit.description == replace(topic.description, deleted_ms=None)
    if is_restored and topic.is_erased:
        raise TopicClosedError(
            f"topic {name!r} ({topic.description.topic_id}) cannot come back: vacuum has begun to "
            f"erase its files"
        )
    is_written = edit.segments or edit.receipts or edit.replace or edit.producers
    if (is_written or edit.description is not None) and not is_restored:
        raise TopicClosedError(f"topic {name!r} was deleted: nothing more can be written to it")


def _check_forgotten(image: Image, topic_id: str, edit: Edit) -> None:
    topic = image.topic(topic_id)
    if topic is None:
        return
    if not topic.is_erased:
        raise CommitConflictError(
            f"topic {topic.description.name!r} is forgotten before vacuum has erased its files"
        )
    if not image.shared:
        return
    of_topic = edit.topics.get(topic_id, TopicEdit())
    kept = set(shared_slices(topic)).difference(of_topic.remove)
    if kept:
        raise UsageError(
            f"topic {topic.description.name!r} has {len(kept)} slices of shared segments: the "
            f"edit that forgets it must remove them, or they would be counted for ever"
        )


def _check_shared(image: Image, edits: Iterable[TopicEdit], forgotten: Iterable[str]) -> None:
    """Refuse new slices of a shared segment that has none left; refuse to forget one that has some.

    Vacuum deletes a segment without slices and then forgets its row. The file is older than the log
    dir's horizon then, so later a new slice is refused because of the file's age.
    """
    added = {entry.log_path for edit in edits for entry in edit.segments if entry.is_shared}
    for path in added:
        known = image.shared.get(path)
        if known is not None and not known.slice_count:
            raise LateWriterError(
                f"{path}: a shared segment whose slices are all gone, so it may be gone: write it "
                f"again"
            )
    for path in forgotten:
        known = image.shared.get(path)
        if (known is not None and known.slice_count) or path in added:
            raise CommitConflictError(f"shared segment {path} has live slices")


def _check_brokers(image: Image, edit: Edit) -> None:
    """Refuse to take a node id from an incarnation that the edit does not name."""
    for node_id, broker in edit.brokers.items():
        if not 0 <= node_id <= NODE_ID_MAX:
            raise UsageError(f"node id {node_id}: allowed are 0 to {NODE_ID_MAX}")
        if broker is not None and broker.node_id != node_id:
            raise UsageError(f"node id {node_id}: the broker has node id {broker.node_id}")
        held = image.brokers.get(node_id)
        if held is None or held.incarnation == edit.replaces.get(node_id):
            continue
        if broker is None:
            raise CommitConflictError(f"broker {node_id} was started again: it stays registered")
        if held.incarnation != broker.incarnation:
            raise DuplicateBrokerRegistrationError(
                f"node id {node_id} is that of another gateway, at {held.endpoints}: give this one "
                f"another --node-id, or wait until that one has left"
            )


def _check_users(edit: Edit) -> None:
    for name, mechanism in edit.users:
        if not name or mechanism not in SCRAM_MECHANISMS:
            raise UsageError(
                f"user {name!r}, mechanism {mechanism!r}: allowed are a name and one of "
                f"{', '.join(SCRAM_MECHANISMS)}"
            )


def _removed(topic: TopicImage, edit: TopicEdit) -> dict[int, Spans]:
    """Return the offsets of the segments that an edit removes, by partition.

    Makes no entries, because there may be tens of thousands. Raises CommitConflictError if a
    segment is not live.
    """
    keys: dict[int, list[SegmentKey]] = {}
    for key in edit.remove:
        keys.setdefault(key.partition, []).append(key)
    found: dict[int, Spans] = {}
    for number, some in keys.items():
        found[number] = topic.partition(number).live.spans(some)
        if len(found[number].base_offset) != len(some):
            _check_live(some, topic.find(some))
    return found


def _check_live(keys: Iterable[SegmentKey], live: Collection[SegmentKey]) -> None:
    gone = sorted(f"{key.log_path} of partition {key.partition}" for key in {*keys} - {*live})
    if gone:
        raise CommitConflictError(f"segments are no longer live: {', '.join(gone[:3])}")


def _check_replacements(topic: TopicImage, replacements: Sequence[SegmentEntry]) -> None:
    keys = [entry.key for entry in replacements]
    live = topic.find(keys)
    _check_live(keys, live)
    for entry in replacements:
        given, known = _span(entry), _span(live[entry.key])
        if given != known:
            raise UsageError(
                f"{entry.log_path}: a replacement holds other offsets, {list(given)} instead of "
                f"{list(known)} (base offset, next offset)"
            )


def _span(entry: SegmentEntry) -> Span:
    return entry.base_offset, entry.next_offset


def _check_ages(topic: TopicImage, horizon_ms: int, edit: TopicEdit) -> None:
    """Refuse files, named for the first time, that vacuum may have taken for orphans.

    Before vacuum deletes older files it commits a horizon: the topic's for files of the topic's
    directory, the log dir's (`horizon_ms`) for shared ones.
    """
    if not (topic.vacuum_horizon_ms or horizon_ms):
        return
    late: dict[str, tuple[int, int]] = {}
    for entry in (*edit.segments, *edit.replace):
        for path in paths_of(entry):
            limit_ms = horizon_ms if path.startswith(SHARED_PREFIX) else topic.vacuum_horizon_ms
            made_ms = born_ms(path)
            if made_ms is not None and made_ms < limit_ms:
                late[path] = made_ms, limit_ms
    known = topic.find(edit.touched).values() if late else ()
    named = {path for entry in known for path in paths_of(entry)}
    for path in sorted(late.keys() - named):
        made_ms, limit_ms = late[path]
        raise LateWriterError(
            f"{path}: written before the vacuum horizon {limit_ms} (ms), so it may be gone: write "
            f"it again; its writer's clock said {made_ms}: if that was long ago, set the clock"
        )


def paths_of(entry: SegmentEntry) -> list[str]:
    """Return the paths of a segment's files."""
    return [path for path in _PATHS(entry) if path is not None]


_PATHS: Final = attrgetter(*PATH_COLUMNS)


def _check_offsets(
    topic: TopicImage, edit: TopicEdit, removed: Mapping[int, Spans]
) -> dict[int, int]:
    """Check the offsets of new segments; return the log end offset of each partition that grows."""
    within = {
        number: (int(spans.base_offset.min()), int(spans.next_offset.max()))
        for number, spans in removed.items()
    }
    inside: dict[int, list[SegmentEntry]] = {}
    ends: dict[int, int] = {}
    gone = topic.content.removed
    for entry in edit.segments:
        if entry.next_offset <= entry.base_offset:
            raise OffsetOutOfRangeError(f"{entry.log_path} holds no offset; allowed: at least 1")
        if entry.next_offset > OFFSET_MAX:
            raise OffsetOutOfRangeError(
                f"partition {entry.partition}: a segment ends at offset {entry.next_offset}; "
                f"allowed up to {OFFSET_MAX}"
            )
        if gone and entry.key in gone:
            raise CommitConflictError(f"{entry.log_path} was removed: its file may be gone")
        low, high = within.get(entry.partition, (0, 0))
        if low <= entry.base_offset and entry.next_offset <= high:
            inside.setdefault(entry.partition, []).append(entry)
            continue
        end = ends.get(entry.partition)
        if end is None:
            end = topic.partition(entry.partition).log_end_offset
        if entry.base_offset < end or (entry.base_offset > end and not edit.allow_gaps):
            raise OffsetOutOfRangeError(
                f"partition {entry.partition}: a segment at offset {entry.base_offset} does not "
                f"continue the log, whose end offset is {end}"
            )
        ends[entry.partition] = entry.next_offset
    for partition, entries in inside.items():
        _check_overlap(topic, partition, entries, removed[partition], within[partition])
    return ends


def _check_overlap(
    topic: TopicImage,
    partition: int,
    entries: list[SegmentEntry],
    removed: Spans,
    within: Span,
) -> None:
    """Refuse segments that replace removed ones and overlap each other or their neighbours.

    `within` are the first and the last offset of the removed segments.
    """
    segments = topic.partition(partition).segments
    near = segments.range(*within)
    bases = segments.base_offset[near.start : near.stop]
    ends = segments.next_offset[near.start : near.stop]
    stays = ~np.isin(bases, removed.base_offset)
    spans = [*zip(bases[stays].tolist(), ends[stays].tolist(), strict=True)]
    spans += [_span(entry) for entry in entries]
    for (_, end), (start, _) in pairwise(sorted(spans)):
        if start < end:
            raise OffsetOutOfRangeError(
                f"partition {partition}: a segment at offset {start} overlaps one that ends at "
                f"{end}"
            )


def _check_starts(topic: TopicImage, edit: TopicEdit, ends: Mapping[int, int]) -> None:
    for partition, state in edit.partitions.items():
        end = PartitionState(log_end_offset=ends.get(partition, 0))
        grown = topic.partition(partition).state.grown(state).grown(end)
        if grown.log_start_offset > grown.log_end_offset:
            raise OffsetOutOfRangeError(
                f"partition {partition}: the log start offset {grown.log_start_offset} would lie "
                f"behind the log end offset {grown.log_end_offset}"
            )


def _check_fold(image: Image, fold: FoldEdit) -> None:
    current = image.fold
    if fold.based_on != current.cover or fold.cover <= current.cover:
        raise CommitConflictError(
            f"the fold up to version {fold.cover} was made on the fold up to {fold.based_on}; "
            f"the newest covers {current.cover}"
        )
    known = {*current.runs, *current.history}
    for run in (*fold.runs, *fold.history):
        if run not in known and (born_ms(run.path) or 0) < image.horizon_ms:
            raise LateWriterError(
                f"{run.path}: written before the vacuum horizon {image.horizon_ms} (ms), so it may "
                f"be gone: fold again"
            )
    if fold.cover > image.version:
        raise UsageError(f"a fold covers version {fold.cover}; allowed up to {image.version}")
