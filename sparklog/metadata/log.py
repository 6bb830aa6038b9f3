"""The metadata log: the commits of a log dir in order. Follow it (`follow`), and commit to it.

    plan(image) -> Edit | Done        pure; called again on every try
    check(image, edit)                may refuse
    put entry N + 1 if absent         one file, one sync
    slot N + 1 decides                my id: landed. Another's: follow, plan again. Empty: put again

The slot decides, whatever a put has answered (`entries`). No plan runs again while the slot is
empty, so no commit lands twice. Segments are not written again: they are position independent.

Committers of one machine take turns. The requests that wait in one process share one entry: their
plans run one after another, each on the image that the plan before leaves.

Durability: an entry's bytes, and the files that its edits name, are synced at the same time, before
it gets its name. Its directory is synced before the answer, unless `flush=False` opened the log.
"""

import logging
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Lock
from typing import Final

from sparklog.author import principal, who
from sparklog.clock import Clock
from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    SparklogError,
    StorageError,
)
from sparklog.garbage import without_frames
from sparklog.log.names import CLUSTER_METADATA, random_uuid, uuid7
from sparklog.metadata import delta
from sparklog.metadata.batch import (
    Batch,
    Committed,
    NotReadyError,
    Plan,
    Planned,
    Ready,
    Request,
    nothing_to_wait_for,
)
from sparklog.metadata.codec.entry import EDITS_BYTES_MAX, EditsFile, Entry, encode, encode_edits
from sparklog.metadata.entries import REPLAY, Outcome
from sparklog.metadata.follow import RESTORE, FollowedLog
from sparklog.metadata.history.read import record_at
from sparklog.metadata.names import ENTRIES, edits_name, entry_path
from sparklog.metadata.plans.backups import BACKUPS
from sparklog.metadata.state.cluster import ids_after_restore
from sparklog.metadata.state.edit import FEATURE_LEVEL, Edit, Stamp
from sparklog.metadata.state.image import Image
from sparklog.record.checksum import crc32c
from sparklog.storage.files import Files
from sparklog.storage.log_dir import probe_conditional_put

__all__ = ["Committed", "MetadataLog", "Plan"]

COMMIT_TIMEOUT_MS: Final = 120_000
"""How long a commit tries if other commits always land first: Kafka's delivery.timeout.ms."""
PATIENT_TRIES: Final = 3
"""How often at most a job plans without the turn, so that no other commit waits for its plan."""
QUICK_MS: Final = 2
"""If a try took no longer, a job takes the turn: other commits wait only briefly then."""
HELD: Final = nullcontext(enter_result=True)
"""Given as the turn if the commit holds the turn already."""
_logger: Final = logging.getLogger(__name__)


class MetadataLog(FollowedLog):
    """The metadata log of one log dir, to follow and to commit to. Usable from any thread."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        *,
        flush: bool = True,
        after_commit: "Callable[[MetadataLog], None]" = lambda _: None,
    ) -> None:
        """`after_commit` runs after each commit that landed (housekeeping); it fails no commit."""
        super().__init__(files, clock)
        self._flush = flush
        self._after_commit = after_commit
        self._is_probed = False
        self._synced = -1
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make new locks and a new queue after a fork: threads that hold them did not follow."""
        super().begin_anew()
        self._committing = Lock()
        self._queueing = Lock()
        self._syncing = Lock()
        self._queue: list[Request] = []

    @classmethod
    def create(cls, files: Files, clock: Clock) -> "MetadataLog":
        """Make the log of a new log dir, durably; if there is one, return it.

        Raises StorageError for a storage that lets a second put replace a file.
        """
        log = cls(files, clock)
        first = Edit(operation="CREATE LOG DIR", level=FEATURE_LEVEL)
        log_id = random_uuid(os.urandom(16))
        entry = Entry(
            version=0,
            id=os.urandom(12).hex(),
            previous="",
            log=log_id,
            timestamp_ms=clock.now_ms(),
            operation=first.operation,
            parameters={"who": who()},
            actions=delta.table_actions(log_id),
        )
        data = encode(entry, encode_edits([first]))
        if files.put_new(entry_path(0), data) and files.put_new(entry_path(0), data):
            raise StorageError(
                f"{files.uri}: two files were put under one name, so commits would be lost: the "
                f"storage does not keep put-if-absent (If-None-Match)"
            )
        files.sync([entry_path(0)])
        log.image()
        return log

    def begin_incarnation(self, log_id: str) -> Committed:
        """Begin a new incarnation, after a restore: followers of the old one refuse its entries.

        It has no gateways and no backups: those that are registered are the original's.
        """
        next_id = ids_after_restore(self.image().next_producer_id)
        ended, self._log_id = self._log_id, log_id

        def plan(image: Image) -> Edit:
            gateways = image.brokers.items()
            return Edit(
                operation=RESTORE,
                parameters={"log": log_id},
                ended_log=ended,
                next_producer_id=next_id,
                brokers=dict.fromkeys(image.brokers),
                replaces={node_id: one.incarnation for node_id, one in gateways},
                leases={name: None for name in image.leases if name.startswith(BACKUPS)},
            )

        return self.commit(plan)

    def _forget(self) -> None:
        super()._forget()
        self._synced = -1

    # ------------------------------------------------------------------------------------- commit

    def commit(
        self,
        plan: Plan,
        topics: Collection[str] = (),
        *,
        housekeeping: bool = True,
        patient: bool = False,
    ) -> Committed:
        """Plan on the newest image and commit, again and again until the commit lands.

        `topics` are the ids of the topics that the plan reads. An empty edit is not committed.
        `patient` is for jobs, which may plan for long: up to PATIENT_TRIES times they plan without
        the turn, and let other commits go first. They take it once a try took QUICK_MS at most.

        Raises the errors of `plan` and `check`, those of sparklog as copies without the plan's
        frames; LogDirError for a store that ignores the condition of a put (each MetadataLog probes
        its store once); CommitConflictError if other commits landed first for two minutes;
        StorageError if the entry could not be put; CommitOutcomeUnknownError if it may have landed
        and the slot cannot be read.
        """
        request = Request(plan, topics, is_patient=patient, principal=principal())
        self._commit([request])
        answer = request.answer()
        if answer.edit is not None and housekeeping:
            self._keep_house()
        return answer

    def commit_each(
        self,
        plans: Sequence[Plan],
        topics: Collection[str],
        *,
        ready: Ready = nothing_to_wait_for,
    ) -> list[Committed | BaseException]:
        """Commit the edits of several plans in one entry; return their outcomes.

        The plans run one after another, each on the image that the one before leaves. A plan that
        fails does not stop the others; its error is its outcome. `ready` waits for the files that
        the edits name: it is called when the entry is written, before it gets its name.
        """
        by = principal()
        requests = [Request(plan, topics, ready=ready, principal=by) for plan in plans]
        self._commit(requests)
        answers = [request.outcome for request in requests]
        if any(isinstance(one, Committed) and one.edit is not None for one in answers):
            self._keep_house()
        return answers

    def _commit(self, requests: Sequence[Request]) -> None:
        """Commit requests, durably; each request gets its outcome."""
        if not (self._is_probed or self.files.is_local):
            # A bucket may have moved to a store that ignores the condition of a put.
            probe_conditional_put(self.files)
        self._is_probed = True
        with self._queueing:
            self._queue += requests
        try:
            with self._committing:
                for request in requests:
                    if not request.is_settled:
                        self._lead(request)
        except BaseException:
            with self._queueing:  # this thread waits no more, so nobody may commit its requests
                self._queue = [one for one in self._queue if one not in requests]
            raise
        found = [request.outcome for request in requests]
        versions = [one.image.version for one in found if isinstance(one, Committed)]
        if versions:
            self.sync(max(versions))

    def _keep_house(self) -> None:
        """Call `after_commit`. The commit has landed, so a failure is only logged."""
        try:
            self._after_commit(self)
        except Exception:
            _logger.warning("housekeeping after a commit failed", exc_info=True)

    def _lead(self, request: Request) -> None:
        """Commit all requests that wait in this process; `request` is this thread's own."""
        with self._queueing:
            batch, self._queue = Batch(self._queue), []
        try:
            self._land(batch)
        except SparklogError as error:
            batch.fail(without_frames(error))
        except BaseException:
            others = batch.interrupted(request)
            with self._queueing:
                self._queue = [*others, *self._queue]
            raise

    def _land(self, batch: Batch) -> None:
        """Commit the edits of the requests in one entry; each request gets its outcome."""
        self._prepare(batch)
        deadline_ms = self.clock.boot_ms() + COMMIT_TIMEOUT_MS
        tries = 0
        while batch.is_patient and tries < PATIENT_TRIES:
            begun_ms = self.clock.boot_ms()
            if self._try(batch, self._turn.if_free()):
                return
            tries += 1
            if self.clock.boot_ms() - begun_ms <= QUICK_MS:
                break
            self.entries.pause(tries)
        with self._turn.taken(lambda: self._prepare(batch)):
            while batch.waiting and not self._try(batch):
                tries += 1
                if self.clock.boot_ms() > deadline_ms:
                    raise CommitConflictError(
                        f"{CLUSTER_METADATA}: other commits landed first {tries} times in a row, "
                        f"for {COMMIT_TIMEOUT_MS} ms"
                    )
                self.entries.pause(tries)

    def _prepare(self, batch: Batch) -> None:
        """Read the files that a try needs, so that no other process waits while this one reads."""
        if self.is_behind(batch.topics):
            self._open_for(batch)

    def _open_for(self, batch: Batch) -> Image:
        """Return the newest image with the batch's topics; a damaged topic fails its requests."""
        image, errors = self.sound_image(batch.topics)
        for request in batch.waiting if errors else ():
            for topic_id in request.topics:
                if topic_id in errors:
                    request.fail(errors[topic_id])
        return image

    def _try(self, batch: Batch, turn: AbstractContextManager[bool] = HELD) -> bool:
        """Plan and put once; return whether the batch is settled.

        `turn` is entered for the put; if it yields False, nothing is put.
        """
        before, looked_ms = self._open_for(batch), self._looked_ms
        # The times of entries never go back, even when a clock does.
        now_ms = before.next_ms(self.clock.now_ms())
        stamp = Stamp(before.version + 1, os.urandom(12).hex(), now_ms)
        planned = batch.plan(before, stamp)
        if planned.edits:
            data = self._encoded(stamp, before, planned)  # a large edit is written and synced here
            with turn as may_put:
                if not may_put or not self._puts(batch, stamp, planned, data, looked_ms):
                    return False
        with self._reading:
            # Another thread may have read the entry, and opened topics, meanwhile: keep its image.
            if self._image is before:
                self._image = planned.image
        batch.land(planned.image)
        return True

    def _puts(
        self, batch: Batch, stamp: Stamp, planned: Planned, data: bytes, looked_ms: int
    ) -> bool:
        """Put the entry of a batch; return whether it has landed."""
        batch.is_in_flight = True
        try:
            has_landed = self._has_landed(stamp, data, looked_ms, batch.await_files)
        except NotReadyError:
            has_landed = False
        if has_landed:
            batch.land(planned.image)  # at once: an interruption from here on commits nothing again
            in_file = len(planned.data) if len(planned.data) > EDITS_BYTES_MAX else 0
            self.bytes_behind += len(data) + in_file
        batch.is_in_flight = False
        return has_landed

    def _has_landed(self, stamp: Stamp, data: bytes, looked_ms: int, ready: Ready) -> bool:
        try:
            outcome = self.entries.put(stamp, data, looked_ms, ready)
        except CorruptMetadataError:
            with self._reading:
                self._forget()
            raise
        if outcome is not Outcome.CLEANED:
            return outcome is Outcome.LANDED
        with self._reading:
            self._image = None
        try:
            return record_at(self, stamp.version).id == stamp.entry_id
        except SparklogError as error:
            raise CommitOutcomeUnknownError(
                f"{entry_path(stamp.version)}: the entry was put after it was cleaned, and "
                f"{error}: {REPLAY}"
            ) from error

    def _encoded(self, stamp: Stamp, before: Image, planned: Planned) -> bytes:
        """Return the bytes of an entry; edits above EDITS_BYTES_MAX are in a file then, durably."""
        entry = Entry(
            version=stamp.version,
            id=stamp.entry_id,
            previous=before.stamp.entry_id,
            log=self._log_id,
            timestamp_ms=stamp.timestamp_ms,
            operation=", ".join(dict.fromkeys(edit.operation for edit in planned.edits)),
            parameters=planned.parameters(who()),
            actions=delta.run_actions(before.fold, planned.edits),
        )
        if len(planned.data) > EDITS_BYTES_MAX:
            entry = replace(entry, edits_file=self._put_edits(stamp, planned.data))
        return encode(entry, planned.data)

    def _put_edits(self, stamp: Stamp, data: bytes) -> EditsFile:
        name = edits_name(stamp.version, uuid7(stamp.timestamp_ms, os.urandom(10)))
        path = f"{CLUSTER_METADATA}/{name}"
        self.files.put_new(path, data)
        self.files.sync([path])
        return EditsFile(name, len(data), crc32c(data))

    def sync(self, version: int | None = None) -> None:
        """Make all entries up to `version` durable, others' too; by default all read so far.

        With `flush=False` that is left to the operating system of a local disk. Raises
        CommitOutcomeUnknownError if it fails: others see the commit, but a power cut may still undo
        it.
        """
        wanted = self.last_image.version if version is None else version
        if self._synced >= wanted or (self.files.is_local and not self._flush):
            return
        with self._syncing:
            if self._synced >= wanted:
                return
            image = self._image
            newest = wanted if image is None else image.version
            try:
                self.files.sync_directory(ENTRIES)
            except StorageError as error:
                raise CommitOutcomeUnknownError(
                    f"{CLUSTER_METADATA}: version {wanted} is committed, but could not be made "
                    f"durable ({error}): {REPLAY}"
                ) from error
            self._synced = max(newest, wanted)
