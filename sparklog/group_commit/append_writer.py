"""Writes a group of client batches, of any topics, to a shared segment and one commit.

    check     every batch, as a leader does; one that is refused does not stop the others
    write     the small partitions of all topics into one shared segment; large ones into segments
              of their own
    commit    one entry, after all files are durable; a topic that the commit refuses (a deleted
              one) is left out

The bytes of the group's companions are behind the batches, and their edit is in the same entry.

Batches are written again if an import, a vacuum, or a retry of the same batches at another instance
was committed meanwhile; in all they are written at most PLANS_MAX times. Vacuum deletes the files
that were never committed. A slice that was never committed stays until its file goes.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from sparklog.errors import FencedLeaderEpochError, SparklogError
from sparklog.group_commit.admission import Admission
from sparklog.group_commit.append_slots import Append, AppendCounts, Checked, Slot
from sparklog.group_commit.append_topics import Target, TopicAppends
from sparklog.group_commit.companions import Companions, Place, Places
from sparklog.group_commit.edit import PLANS_MAX, counting, group_edit, is_passing
from sparklog.group_commit.failed_firsts import FailedFirsts
from sparklog.log_writer import SharedSegment, SharedSegments, WriteOptions
from sparklog.metadata.batch import CheckedEdit
from sparklog.metadata.catalog import PRODUCER_ID_EXPIRATION_MS, Catalog, check_partition
from sparklog.metadata.log import Committed, Plan
from sparklog.metadata.plans.topics import live_topic
from sparklog.metadata.state.edit import NOTHING, Done
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.metadata.state.transactions import TransactionPartition
from sparklog.record.checksum import crc32c

if TYPE_CHECKING:
    from sparklog.record.client_batch import ClientBatch

ROUNDS_MAX: Final = 20
"""How often a companion is written at most; then it fails."""


class AppendWriter:
    """Writes groups, one at a time."""

    def __init__(
        self,
        catalog: Catalog,
        counts: AppendCounts | None = None,
        *,
        flush: bool = True,
        grows: bool = False,
        parameters: Mapping[str, str] = NOTHING,
    ) -> None:
        """`flush` says whether segments are synced; the entry always is.

        `parameters` tell about each commit, besides its topics and counts.

        With `grows` the groups of a second share one segment on a local disk; call `close` at the
        end then.
        """
        self._catalog = catalog
        self._counts = counts or AppendCounts()
        self._options = WriteOptions(flush=flush)
        self._shared = SharedSegments(catalog.files, catalog.clock, grow=grows)
        self._failed = FailedFirsts()
        self._parameters = parameters

    def write(self, slots: Sequence[Slot], companions: Companions | None = None) -> Image | None:
        """Write and commit; set the outcome of every slot. Batches of a partition keep their order.

        Companions get their outcomes, too. Returns the image after the last commit; None if nothing
        landed.
        """
        image: Image | None = None
        for rounds in range(ROUNDS_MAX):
            waiting = [slot for slot in slots if slot.outcome is None]
            if companions is not None and companions.are_settled:
                companions = None
            if not waiting and companions is None:
                break
            try:
                image = self._round(waiting, companions, rounds) or image
            except SparklogError as error:
                for slot in waiting:
                    if slot.outcome is None:
                        self._failed.note(slot, self._catalog.clock.now_ms())
                    slot.refuse(error)
                if companions is not None:
                    companions.fail(error)
        if companions is not None:
            companions.give_up()
        return image

    def close(self) -> None:
        """Close the shared segment that was written last."""
        self._shared.close()

    def _round(
        self, slots: Sequence[Slot], companions: Companions | None, rounds: int
    ) -> Image | None:
        """Write slots and commit them in one entry; a slot to be written again gets no outcome.

        `rounds` is the number of earlier rounds. Returns the image after the commit; None if
        nothing landed.
        """
        group = self._group(slots, companions)
        if not group.topics and group.companions is None:
            return None
        shared = self._shared.next(group.image, anew=rounds > 0)
        places = self._written(group.topics, group.pieces, shared)
        plans = self._plans(group, places)
        outcomes = self._catalog.log.commit_each(plans, group.sound_ids, ready=shared.sync)
        if group.companions is not None:
            group.companions.land(outcomes[-1])
        if group.topics:
            self._land(group.topics, outcomes[0], is_last=rounds + 1 >= PLANS_MAX)
        landed = [one for one in outcomes if isinstance(one, Committed) and one.edit is not None]
        return landed[0].newest if landed else None

    def _group(self, slots: Sequence[Slot], companions: Companions | None) -> "_Group":
        """Check the slots, and begin the companions, on the newest image.

        Slots that it refuses get their errors as outcomes; so do companions.
        """
        log, clock = self._catalog.log, self._catalog.clock
        ids = dict.fromkeys(slot.append.topic_id for slot in slots)
        (image, damaged), now_ms = log.sound_image(ids), clock.now_ms()
        self._failed.forget(now_ms - PRODUCER_ID_EXPIRATION_MS)
        topics = self._checked(slots, image, damaged, now_ms)
        group = _Group(image=image, topics=topics, topic_ids=ids, damaged=damaged)
        if companions is None:
            return group
        theirs = companions.begin(image)
        opened, lost = log.sound_at(image, theirs)
        if lost:
            companions.lose(lost)
        if companions.are_settled:
            return group
        return replace(
            group,
            topic_ids=dict.fromkeys([*ids, *theirs]),
            damaged={**damaged, **lost},
            companions=companions,
            pieces=companions.pieces(opened, now_ms),
        )

    def _plans(self, group: "_Group", places: Places) -> list[Plan]:
        """Return the plan of the batches, then that of the companions; each if there are some."""
        plans = [self._plan(group.topics)] if group.topics else []
        if group.companions is not None:
            plans.append(partial(group.companions.plan, places=places))
        return plans

    def _land(
        self, topics: Sequence[TopicAppends], outcome: Committed | BaseException, *, is_last: bool
    ) -> None:
        """Settle the batches of topics. Raises the outcome if it is an error."""
        if isinstance(outcome, SparklogError):
            raise copy(outcome)  # because this frame has the error itself
        if isinstance(outcome, BaseException):
            raise outcome
        for one in topics:
            if one.error is None:
                one.settle()
                self._count(one)
            elif not is_passing(one.error):
                one.fail()
            if is_last:
                one.fail()
        self._counts.commits += outcome.edit is not None

    def _checked(
        self,
        slots: Sequence[Slot],
        image: Image,
        damaged: Mapping[str, SparklogError],
        now_ms: int,
    ) -> list[TopicAppends]:
        """Return the sound batches by topic; the other slots get their errors as outcomes.

        `damaged` has the errors of topics that the image could not open, by topic id.
        """
        # Loaded with the first batch: the kernels load slowly; other requests do not need them.
        from sparklog.record.client_batch import check_client_batch

        targets: dict[str, Target] = {}
        checked: dict[str, list[Checked]] = {}
        for slot in slots:
            append = slot.append
            topic_id = append.topic_id
            try:
                target = targets.get(topic_id)
                if target is None:
                    if topic_id in damaged:
                        raise damaged[topic_id]
                    topic = live_topic(image, topic_id)
                    target = targets[topic_id] = Target.of(topic, now_ms, self._options)
                _check_epoch(target.topic, append)
                check_partition(target.topic.description, append.partition)
                batch = slot.checked_for(target.config) or check_client_batch(
                    append.batch, target.config, now_ms, slot.produce_version
                )
            except SparklogError as error:
                slot.refuse(error)
            else:
                checked.setdefault(topic_id, []).append(Checked(slot, batch))
        admission = Admission(image.transactional_ids, self._failed)
        return [TopicAppends(targets[one], found, admission) for one, found in checked.items()]

    def _written(
        self, topics: Sequence[TopicAppends], pieces: Collection[bytes], shared: SharedSegment
    ) -> Places:
        """Write all batches, and the companions' pieces; return the places of the pieces.

        `shared.sync` makes them durable.
        """
        try:
            places = self._write_small(topics, pieces, shared)
            for one in topics:
                if one.large:
                    self._write_large(one, shared)
            shared.complete()
        except BaseException:
            shared.abort()
            raise
        return places

    def _write_small(
        self, topics: Sequence[TopicAppends], pieces: Collection[bytes], shared: SharedSegment
    ) -> Places:
        small = [partition for one in topics for partition in one.small]
        if not small and not pieces:
            return {}
        batches = [piece for one in small for piece in one.pieces]
        flush = self._options.flush or bool(pieces)
        path, position = shared.put([*batches, *pieces], flush=flush)
        now_ms = self._catalog.clock.now_ms()
        for one in small:
            one.lie_at(path, position, now_ms)
            position += one.size
        places: dict[bytes, Place] = {}
        for piece in pieces:
            places[piece] = Place(path, position, crc32c(piece))
            position += len(piece)
        return places

    def _write_large(self, topic: TopicAppends, shared: SharedSegment) -> None:
        from sparklog.log_writer import TopicWriter

        files, clock = self._catalog.files, self._catalog.clock
        topic.write_large(TopicWriter(files, topic.target.plan, clock, 0, shared))

    def _plan(self, topics: Collection[TopicAppends]) -> Plan:
        """Return the plan that commits topics in one entry; it leaves out those with an error."""

        def plan(image: Image) -> CheckedEdit | Done:
            admission = Admission(image.transactional_ids, self._failed)
            placed = [(one, one.placed(image, admission)) for one in topics]
            return group_edit(placed, admission.begun, admission.added, self._parameters)

        return counting(plan, self._counts)

    def _count(self, topic: TopicAppends) -> None:
        batches: list[ClientBatch] = []
        for one in topic.partitions:
            place = TransactionPartition(topic.topic_id, one.partition)
            for batch in one.appended:
                self._failed.landed(place, batch)
                batches.append(batch)
        self._counts.batches += len(batches)
        self._counts.bytes += sum(len(batch.data) for batch in batches)
        self._counts.records += sum(batch.record_count for batch in batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The sound batches of a round, by topic, and the bytes of its companions.

    `companions` is None if there are none without an outcome. `damaged` has the ids of topics that
    cannot be read.
    """

    image: Image
    topics: Sequence[TopicAppends]
    topic_ids: Collection[str]
    damaged: Collection[str]
    companions: Companions | None = None
    pieces: Collection[bytes] = ()

    @property
    def sound_ids(self) -> list[str]:
        """The ids of the topics that the commit opens."""
        return [one for one in self.topic_ids if one not in self.damaged]


def _check_epoch(topic: TopicImage, append: Append) -> None:
    """Refuse a batch whose leader epoch is not the partition's present one."""
    if append.leader_epoch is None:
        return
    current = topic.partition(append.partition).leader_epoch
    if append.leader_epoch != current:
        raise FencedLeaderEpochError(
            f"{topic.description.name}-{append.partition}: appended with leader epoch "
            f"{append.leader_epoch}, it is {current} now"
        )
