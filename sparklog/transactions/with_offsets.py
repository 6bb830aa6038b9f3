"""Writes to any topics and offsets of groups in one entry, without a transaction.

    checked     each group, as for a commit of offsets alone (`coordinator.group_log`)
    written     one shared segment: a batch of offsets for each partition of __consumer_offsets
    committed   one entry with all writes, if these partitions still end where they were read

If another process has written to such a partition meanwhile, the groups are checked again and their
offsets are written again. The files of the other writes stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sparklog.config import TopicConfig
from sparklog.coordinator.batches import batch_of, spread
from sparklog.coordinator.commits.offset_checks import check_offsets
from sparklog.coordinator.group_log import TRIES_MAX, GroupLog, PlannedAppend
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommitRequest, CommittedOffset
from sparklog.errors import CommitConflictError, InvalidOptionError
from sparklog.group_commit.companions import Places
from sparklog.log_writer import PRODUCE
from sparklog.metadata.catalog import Catalog, Landed, Write
from sparklog.metadata.state.edit import TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription, TopicPartition
from sparklog.transactions.pieces import Piece, in_a_row, row_of, written

_BOTH: Final = (True, False)

GroupOffsets = Mapping[str, Mapping[TopicPartition, CommittedOffset]]
"""Offsets by group."""

_Planned = tuple[PlannedAppend, Piece, int]
"""A planned batch of offsets, its bytes, and the leader epoch in them."""


class _Moved(Exception):  # noqa: N818 - no error: the groups are checked again
    """A partition of __consumer_offsets has grown, or was claimed, since it was read."""


def commit_with_offsets(
    catalog: Catalog,
    writes: Sequence[Write],
    offsets: GroupOffsets,
    parameters: Mapping[str, str] | None = None,
) -> list[Landed]:
    """Commit writes and groups' offsets in one entry, all or none; return each write's answer.

    The offsets have the identity of the first write (`app_id`, `version`), so they land once.
    Raises as `check_offsets` and `Catalog.commit_all`, GroupNotEmptyError if a group has members
    and a gateway is alive, and CommitConflictError if other processes keep writing to the groups'
    partitions.
    """
    for group_id, some in offsets.items():
        check_offsets(catalog, group_id, some)
    commits = [CommitRequest(group_id, some) for group_id, some in offsets.items() if some]
    if not commits:
        return catalog.commit_all(writes, operation=PRODUCE, parameters=parameters)
    groups, told = GroupLog(catalog), {**(parameters or {}), "groups": ", ".join(offsets)}
    for _ in range(TRIES_MAX):
        try:
            joined = [*writes, _write_of(catalog, groups.planned(commits), writes[0])]
            found = catalog.commit_all(joined, operation=PRODUCE, parameters=told)
        except _Moved:
            continue
        return found[:-1]
    raise CommitConflictError(
        f"others keep writing to the partitions of {OFFSETS_TOPIC} of the groups "
        f"{', '.join(sorted(offsets))}: try again"
    )


def _write_of(catalog: Catalog, planned: Sequence[PlannedAppend], like: Write) -> Write:
    """Write the batches of offsets; return the write that appends them, with `like`'s identity."""
    topic, now_ms = planned[0].topic, catalog.clock.now_ms()
    image = catalog.topic_image(topic)
    bytes_max = TopicConfig.parse(topic.configs).max_message_bytes
    batches: list[_Planned] = []
    for one in planned:
        newest = image.partition(one.partition).leader_epoch
        epoch = newest if one.leader_epoch is None else one.leader_epoch
        parts = spread(one.records, bytes_max)
        data = [batch_of(part, now_ms, leader_epoch=epoch) for part in parts]
        counts = tuple(map(len, parts))
        piece = Piece(one.partition, in_a_row(data, counts), counts)
        batches.append((one, piece, epoch))
    places, shared = written(catalog, {piece.data for _, piece, _ in batches})
    shared.sync()

    def plan(image: TopicImage) -> TopicEdit:
        return TopicEdit(
            segments=list(_rows(image, batches, places, now_ms)),
            leader_epochs={one.partition: epoch for one, _, epoch in batches},
        )

    return Write(topic=topic, plan=plan, app_id=like.app_id, version=like.version)


def _rows(
    image: TopicImage, batches: Iterable[_Planned], places: Places, now_ms: int
) -> Iterable[SegmentEntry]:
    """Yield the rows of batches of offsets.

    Raises _Moved if a partition has grown or was claimed.
    """
    for one, piece, epoch in batches:
        log = image.partition(one.partition)
        if (log.log_end_offset, log.leader_epoch) != (one.end_offset, epoch):
            raise _Moved
        yield row_of(piece, places[piece.data], one.end_offset, epoch, now_ms)


def has_landed(
    catalog: Catalog,
    topics: Sequence[TopicDescription],
    offsets: GroupOffsets,
    app_id: str,
    version: int,
) -> bool:
    """Whether this write has landed already, in all its topics and with its offsets.

    Raises InvalidOptionError if only some of them have it: then another write had this identity.
    """
    found = {one.name: catalog.is_committed(one, app_id, version) for one in topics}
    if any(offsets.values()):
        topic = catalog.topics().get(OFFSETS_TOPIC)
        found[OFFSETS_TOPIC] = topic is not None and catalog.is_committed(topic, app_id, version)
    if len(set(found.values())) > 1:
        has, lacks = (", ".join(name for name in found if found[name] is is_in) for is_in in _BOTH)
        raise InvalidOptionError(
            f"txnVersion {version} of txnAppId {app_id!r} has landed in {has}, not in {lacks}: it "
            f"was a write to other topics; a write has a version of its own",
            option="txnVersion",
        )
    return all(found.values())
