"""The metadata log: which commits there are. Open it, follow it, commit to it.

    plan(image) -> Edit | Done        pure; called again on every try
    check(image, edit)                may refuse
    put entry N + 1 if absent         one file, one sync
    slot N + 1 decides                my id: landed. Another's: follow, plan again. Empty: put again

Whatever a put answered, the slot decides: an object store may say "exists" after one's own success,
and an error may come after the entry is there. Nothing is planned anew before the slot is filled,
so no commit lands twice. Nothing is written anew either: segments are position independent.

Committers of one machine take turns. What waits in one process shares one entry: its plans run one
after another, each on the image as the one before leaves it.

Durable: an entry's bytes are synced before it gets its name, always. The directory that names it is
synced before the commit is answered, unless the log was opened with `flush=False`.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from threading import Lock, RLock
from typing import Final

import orjson

from sparklog.clock import Clock
from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    MissingFileError,
    SparklogError,
    StorageError,
)
from sparklog.log.names import random_uuid, uuid7
from sparklog.metadata import delta
from sparklog.metadata.batch import Batch, Committed, Plan, Planned, Request
from sparklog.metadata.edit import FEATURE_LEVEL, Edit, FoldEdit, Stamp
from sparklog.metadata.entries import CLUSTER_METADATA, ENTRIES, Entries, Outcome, entry_path
from sparklog.metadata.entry import (
    EDITS,
    EDITS_BYTES_MAX,
    EditsFile,
    Entry,
    encode,
    encode_edits,
)
from sparklog.metadata.image import Image
from sparklog.metadata.runs import Runs, crc32c
from sparklog.metadata.turn import Turn
from sparklog.storage.files import Files

__all__ = [
    "CLUSTER_METADATA",
    "EDITS",
    "ENTRIES",
    "HINT",
    "Committed",
    "MetadataLog",
    "Plan",
    "entry_path",
]

HINT: Final = f"{CLUSTER_METADATA}/_newest_fold"
"""A JSON object: `version` is that of a fold. It may be late or missing, never early."""
CHECKPOINT: Final = ".checkpoint.parquet"
"""How the names of Delta's checkpoints end: one for each fold."""

COMMIT_TIMEOUT_MS: Final = 120_000
"""How long a commit goes on when others keep winning: Kafka's delivery.timeout.ms."""
KEEP_LOCAL_MS: Final = 10 * 60_000
KEEP_REMOTE_MS: Final = 60 * 60_000
"""How long an entry stays, at least, after a fold has covered it, by the store's own time."""


class MetadataLog:
    """The metadata log of one log dir, followed. For any number of threads."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        *,
        flush: bool = True,
        after_commit: "Callable[[MetadataLog], None]" = lambda _: None,
    ) -> None:
        """`after_commit` is called when a commit was answered: housekeeping."""
        self.files = files
        self.clock = clock
        self.runs = Runs(files, CLUSTER_METADATA)
        self.entries = Entries(files, clock, self.keep_ms)
        self._flush = flush
        self._after_commit = after_commit
        self._turn = Turn(files, ENTRIES, clock)
        self._image: Image | None = None
        self._log_id = ""
        self._looked_ms = 0
        self._reading = RLock()
        self._committing = Lock()
        self._queueing = Lock()
        self._syncing = Lock()
        self._queue: list[Request] = []
        self._synced = -1

    @classmethod
    def create(cls, files: Files, clock: Clock) -> "MetadataLog":
        """Make the log of a new log dir, durably; making it twice is once.

        Raises StorageError for a storage that does not keep put-if-absent.
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

    @property
    def log_id(self) -> str:
        """The incarnation of the log dir that was opened; a restored one has another."""
        return self._log_id

    @property
    def keep_ms(self) -> int:
        """How long entries stay after they were folded."""
        return KEEP_LOCAL_MS if self.files.is_local else KEEP_REMOTE_MS

    # ------------------------------------------------------------------------------------- follow

    def image(self, topics: Collection[str] = ()) -> Image:
        """Return the newest image, with these topics (ids) opened; unknown ids are passed over.

        Raises MissingFileError when there is no log, CorruptMetadataError naming the file that
        cannot be understood, LogDirError for a log of another format or a newer release.
        """
        with self._reading:
            self._follow()
            image = self._image = self.opened_at(self._read, topics)
            return image

    def read_last(self) -> Image:
        """Return the image that was read last, without looking for a newer one."""
        return self._read

    def current(self) -> Image | None:
        """Return the image read last if nothing was committed since, without reading.

        None when there may be a newer one, or none was read yet, or the log is on an object store.
        """
        image = self._image
        if image is None or not self.files.is_local or self._is_late():
            return None
        is_newest = not self.entries.has(image.version + 1) and not self._turn.is_replaced()
        return image if is_newest else None

    def opened_at(self, image: Image, topics: Collection[str]) -> Image:
        """Return an image with these topics opened, whatever was committed since."""
        closed = {
            topic_id: topic
            for topic_id in topics
            if (topic := image.topic(topic_id)) is not None and not topic.is_open
        }
        if not closed:
            return image
        return image.with_topics(self.runs.opened(image.fold, closed))

    def read_entry(self, version: int) -> Entry | None:
        """Return an entry, its edits read; None when there is none of this version.

        Raises CorruptMetadataError naming the file.
        """
        return self.entries.read(version)

    @property
    def _read(self) -> Image:
        image = self._image
        if image is None:
            raise MissingFileError(f"{CLUSTER_METADATA}: the log was not read yet")
        return image

    def _follow(self) -> None:
        if self._turn.is_replaced():
            self._forget()
            raise MissingFileError(
                f"{ENTRIES} was deleted or replaced by another directory: open the log dir anew"
            )
        if self._image is None or self._is_late():
            self._image = self._reopened()
        self._looked_ms = self.clock.boot_ms()
        image = self._image
        while (entry := self.entries.read(image.version + 1)) is not None:
            image = self._image = self._after(image, entry)

    def _is_late(self) -> bool:
        """Whether entries that were not read may have been cleaned by now."""
        return self.clock.boot_ms() - self._looked_ms > self.keep_ms // 2

    def _after(self, image: Image, entry: Entry) -> Image:
        """Return the image after an entry; raises CorruptMetadataError when it does not follow."""
        if entry.is_foreign:
            stamp = Stamp(entry.version, image.stamp.entry_id, image.stamp.timestamp_ms)
            return image.apply((), stamp)
        if entry.previous != image.stamp.entry_id or (self._log_id and entry.log != self._log_id):
            raise CorruptMetadataError(
                f"{entry_path(entry.version)} follows entry {entry.previous!r} of log {entry.log}; "
                f"version {image.version} here is {image.stamp.entry_id!r} of log {self._log_id}: "
                f"the log dir was restored or replaced, or its store does not keep "
                f"put-if-absent; open it anew"
            )
        self._log_id = entry.log
        return image.apply(entry.edits, entry.stamp)

    # --------------------------------------------------------------------------------------- open

    def _reopened(self) -> Image:
        """Return the image of the newest fold: of the same log as before, and not before it."""
        known, log_id = self._image, self._log_id
        image, self._log_id = self._opened()
        is_other = log_id and self._log_id and self._log_id != log_id
        if is_other or (known is not None and image.version < known.fold.cover):
            found = f"version {image.version} of log {self._log_id}"
            self._forget()
            raise CorruptMetadataError(
                f"{CLUSTER_METADATA}: {found} where log {log_id} was followed: the log dir was "
                f"restored or replaced; open it anew"
            )
        self._turn.hold()
        return image

    def _forget(self) -> None:
        """Forget the log that was followed: the next one is opened as if it were the first."""
        self._turn.forget()
        self._image, self._log_id, self._synced = None, "", -1

    def _opened(self) -> tuple[Image, str]:
        """Return the image of the newest fold that can be found, else the empty one; the log's id.

        The hint is a shortcut: when it does not lead anywhere, the checkpoints of folds do.
        """
        fold = self._fold_at(self._hinted())
        if fold is None and not self.entries.has(0):
            names = [file.path.rpartition("/")[2] for file in self.files.list(ENTRIES)]
            folds = [int(name[:20]) for name in names if name.endswith(CHECKPOINT)]
            found = map(self._fold_at, sorted(folds, reverse=True))
            fold = next((one for one in found if one is not None), None)
            if fold is None:
                raise MissingFileError(
                    f"{CLUSTER_METADATA}: no metadata log here, {entry_path(0)} is missing"
                )
        return (Image(), "") if fold is None else (self.runs.covered(fold[0]), fold[1])

    def _fold_at(self, version: int) -> tuple[FoldEdit, str] | None:
        """Return the fold of an entry and the log's id; None when it is no fold (any more)."""
        entry = self.entries.read(version) if version >= 0 else None
        folds = [] if entry is None else [one.fold for one in entry.edits if one.fold is not None]
        return (folds[-1], entry.log) if entry is not None and folds else None

    def _hinted(self) -> int:
        try:
            return int(orjson.loads(bytes(self.files.read(HINT)))["version"])
        except (MissingFileError, ValueError, KeyError, TypeError):
            return -1

    # ------------------------------------------------------------------------------------- commit

    def commit(
        self, plan: Plan, topics: Collection[str] = (), *, housekeeping: bool = True
    ) -> Committed:
        """Plan on the newest image and commit, again and again until it lands.

        `topics` are the ids of the topics that the plan looks into. An empty edit is not committed.

        Raises what `plan` and `check` raise; CommitConflictError when others kept winning for two
        minutes; StorageError when the entry could not be put; CommitOutcomeUnknownError when it may
        have landed and the slot cannot be read.
        """
        request = Request(plan, topics)
        with self._queueing:
            self._queue.append(request)
        with self._committing:
            if not request.is_settled:
                self._lead(request)
        answer = request.answer()
        if self._flush or not self.files.is_local:
            self.sync(answer.image.version)
        if answer.edit is not None and housekeeping:
            self._after_commit(self)
        return answer

    def _lead(self, request: Request) -> None:
        """Commit for all who wait in this process: `request` is this thread's own."""
        with self._queueing:
            batch, self._queue = Batch(self._queue), []
        try:
            self._land(batch)
        except SparklogError as error:
            batch.fail(error)
        except BaseException:
            others = batch.interrupted(request)
            with self._queueing:
                self._queue = [*others, *self._queue]
            raise

    def _land(self, batch: Batch) -> None:
        """Commit what the requests plan, in one entry; each gets its outcome."""
        self._open_for(batch)  # what is long to read is read before the turn
        deadline_ms = self.clock.boot_ms() + COMMIT_TIMEOUT_MS
        tries = 0
        with self._turn.taken():
            while batch.waiting and not self._try(batch):
                tries += 1
                if self.clock.boot_ms() > deadline_ms:
                    raise CommitConflictError(
                        f"{CLUSTER_METADATA}: others won {tries} times in a row for "
                        f"{COMMIT_TIMEOUT_MS} ms"
                    )
                self.entries.pause(tries)

    def _open_for(self, batch: Batch) -> Image:
        """Return the newest image with the batch's topics; one that is damaged fails alone."""
        try:
            return self.image(batch.topics)
        except SparklogError:
            if len(batch.waiting) == 1:
                raise
        for request in batch.waiting:
            try:
                self.image(request.topics)
            except SparklogError as error:
                request.fail(error)
        return self.image(batch.topics)

    def _try(self, batch: Batch) -> bool:
        """Plan and put once; return whether that settled the batch."""
        before = self._open_for(batch)
        # Time never goes back, wherever somebody sets a clock.
        now_ms = max(self.clock.now_ms(), before.stamp.timestamp_ms)
        stamp = Stamp(before.version + 1, os.urandom(12).hex(), now_ms)
        planned = batch.plan(before, stamp)
        if planned.edits:
            data = self._encoded(stamp, before, planned)
            batch.is_in_flight = True
            outcome = self.entries.put(stamp, data)
            batch.is_in_flight = False
            if outcome is Outcome.CLEANED:
                self._image = None
            if outcome is not Outcome.LANDED:
                return False
        with self._reading:
            # Another thread may have read the entry and opened topics meanwhile: both are the same.
            if self._image is before:
                self._image = planned.image
        batch.land()
        return True

    def _encoded(self, stamp: Stamp, before: Image, planned: Planned) -> bytes:
        parameters: dict[str, str] = {}
        for edit in planned.edits:
            parameters.update(edit.parameters)
        entry = Entry(
            version=stamp.version,
            id=stamp.entry_id,
            previous=before.stamp.entry_id,
            log=self._log_id,
            timestamp_ms=stamp.timestamp_ms,
            operation=", ".join(dict.fromkeys(edit.operation for edit in planned.edits)),
            parameters=parameters,
            actions=delta.run_actions(before.fold, planned.edits),
        )
        if len(planned.data) > EDITS_BYTES_MAX:
            entry = replace(entry, edits_file=self._put_edits(stamp, planned.data))
        return encode(entry, planned.data)

    def _put_edits(self, stamp: Stamp, data: bytes) -> EditsFile:
        name = f"{EDITS}/{uuid7(stamp.timestamp_ms, os.urandom(10))}.json"
        path = f"{CLUSTER_METADATA}/{name}"
        self.files.put_new(path, data)
        self.files.sync([path])
        return EditsFile(name, len(data), crc32c(data))

    def sync(self, version: int | None = None) -> None:
        """Make every entry up to a version durable, whoever committed it; all that were read by now.

        Raises CommitOutcomeUnknownError when that fails: others see the commit, a power cut may
        still take it.
        """
        wanted = self._read.version if version is None else version
        if self._synced >= wanted:
            return
        with self._syncing:
            if self._synced >= wanted:
                return
            newest = self._read.version
            try:
                self.files.sync_directory(ENTRIES)
            except StorageError as error:
                raise CommitOutcomeUnknownError(
                    f"{CLUSTER_METADATA}: version {wanted} is committed, but could not be made "
                    f"durable ({error}): replay with the same txnAppId and txnVersion"
                ) from error
            self._synced = max(newest, wanted)
