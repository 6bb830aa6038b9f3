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
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
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
    VersionOutOfRangeError,
)
from sparklog.log.names import random_uuid, uuid7
from sparklog.metadata import delta
from sparklog.metadata.check import check
from sparklog.metadata.edit import FEATURE_LEVEL, Done, Edit, FoldEdit
from sparklog.metadata.entry import (
    EDITS_BYTES_MAX,
    EditsFile,
    Entry,
    decode,
    edits_of,
    encode,
    encode_edits,
)
from sparklog.metadata.image import Image, Stamp
from sparklog.metadata.marks import newest_mark
from sparklog.metadata.runs import Runs, crc32c
from sparklog.metadata.turn import Turn
from sparklog.storage.files import Files

CLUSTER_METADATA: Final = "__cluster_metadata"
ENTRIES: Final = f"{CLUSTER_METADATA}/_delta_log"
EDITS: Final = "_edits"
HINT: Final = f"{CLUSTER_METADATA}/_newest_fold"
"""A JSON object: `version` is that of a fold. It may be late or missing, never early."""

COMMIT_TIMEOUT_MS: Final = 120_000
"""How long a commit goes on when others keep winning: Kafka's delivery.timeout.ms."""
PUT_TIMEOUT_MS: Final = 60_000
"""How long one entry is put again while its slot stays empty."""
LOCAL_PUT_TRIES: Final = 3
OPEN_TRIES: Final = 8
"""How often an opener begins again because a cleaner was ahead of it."""
KEEP_LOCAL_MS: Final = 10 * 60_000
KEEP_REMOTE_MS: Final = 60 * 60_000
"""How long an entry stays, at least, after a fold has covered it, by the store's own time."""
BACK_OFF_MAX_EXPONENT: Final = 6
AFTER_A_POWER_CUT: Final = "after a power cut, run sparklog verify --repair"

Plan = Callable[[Image], Edit | Done]


def entry_path(version: int) -> str:
    """Return the path of an entry in the log dir."""
    return f"{ENTRIES}/{version:020}.json"


def fold_of(entry: Entry) -> FoldEdit | None:
    """Return the fold of an entry; None for an entry that is none."""
    return next((edit.fold for edit in entry.edits if edit.fold is not None), None)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's answer: the image after it, and the edit that made it; None when none was needed.

    `before` is the image that the winning plan saw.
    """

    image: Image
    before: Image
    edit: Edit | None


class _Request:
    """One call of `commit`: its plan, and the outcome of the newest try."""

    def __init__(self, plan: Plan, topics: Collection[str]) -> None:
        self.plan = plan
        self.topics = topics
        self.is_settled = False
        self.outcome: Committed | BaseException | None = None

    def run(self, image: Image) -> Edit | None:
        """Plan on an image; return the edit to commit, None when there is none."""
        try:
            edit = self.plan(image)
            if isinstance(edit, Done) or edit.is_empty:
                self.outcome = Committed(image, image, None)
                return None
            check(image, edit)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that asked
            self.outcome = error
            return None
        return edit

    def answer(self) -> Committed:
        """Return or raise the outcome."""
        if isinstance(self.outcome, Committed):
            return self.outcome
        if self.outcome is None:
            raise CommitOutcomeUnknownError("the thread that committed for this one was stopped")
        raise self.outcome


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
        self._flush = flush
        self._after_commit = after_commit
        self._turn = Turn(files, ENTRIES, clock)
        self._image: Image | None = None
        self._log_id = ""
        self._looked_ms = 0
        self.begin_anew()
        self._synced = -1
        self.bytes_behind = 0
        """About how much the entries behind the newest fold take."""

    def begin_anew(self) -> None:
        """Make locks and queue anew, as after a fork: threads that hold them did not come along."""
        self._reading = RLock()
        self._committing = Lock()
        self._queueing = Lock()
        self._syncing = Lock()
        self._queue: list[_Request] = []

    def go_on_from(self, image: Image, log_id: str) -> None:
        """Take an image for the one read last: repair has built it without damaged files."""
        self._image, self._log_id, self._looked_ms = image, log_id, self.clock.boot_ms()

    @classmethod
    def create(cls, files: Files, clock: Clock) -> "MetadataLog":
        """Make the log of a new log dir, durably; making it twice is once."""
        log = cls(files, clock)
        first = Edit(operation="CREATE LOG DIR", level=FEATURE_LEVEL)
        log_id = random_uuid(os.urandom(16))
        data = encode(
            Entry(
                0,
                os.urandom(12).hex(),
                "",
                log_id,
                clock.now_ms(),
                first.operation,
                actions=delta.table_actions(log_id),
            ),
            encode_edits([first]),
        )
        files.put_new(entry_path(0), data)
        log.image()
        log.sync()
        return log

    # ------------------------------------------------------------------------------------- follow

    def image(self, topics: Collection[str] = ()) -> Image:
        """Return the newest image, with these topics (ids) opened; unknown ids are passed over.

        Raises MissingFileError when there is no log, CorruptMetadataError naming the file that
        cannot be understood, LogDirError for a log of another format or a newer release.
        """
        with self._reading:
            self._follow()
            return self._opened(topics)

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
        is_newest = not os.access(f"{self.files.uri}/{entry_path(image.version + 1)}", os.F_OK)
        return image if is_newest else None

    def _opened(self, topics: Collection[str]) -> Image:
        image = self._image = self.opened_at(self._read, topics)
        return image

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

    @property
    def _read(self) -> Image:
        if self._image is None:
            raise MissingFileError(f"{CLUSTER_METADATA}: the log was not read yet")
        return self._image

    def _follow(self) -> None:
        if self._image is None or self._is_late():
            self._open()
        else:
            self._read_on(self._image)

    def _read_on(self, image: Image) -> None:
        self._image = image
        self._looked_ms = self.clock.boot_ms()
        while (entry := self.read_entry(image.version + 1)) is not None:
            image = self._image = self._after(image, entry)

    def _is_late(self) -> bool:
        """Whether entries that were not read may have been cleaned by now."""
        return self.clock.boot_ms() - self._looked_ms > self.keep_ms // 2

    @property
    def log_id(self) -> str:
        """The incarnation of the log dir that was opened; a restored one has another."""
        return self._log_id

    @property
    def keep_ms(self) -> int:
        """How long entries stay after they were folded."""
        return KEEP_LOCAL_MS if self.files.is_local else KEEP_REMOTE_MS

    def _after(self, image: Image, entry: Entry) -> Image:
        """Return the image after an entry; raises CorruptMetadataError when it does not follow."""
        self.bytes_behind = 0 if fold_of(entry) is not None else self.bytes_behind + entry.bytes
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

    def read_entry(self, version: int) -> Entry | None:
        """Return an entry, its edits read; None when there is none of this version.

        Raises CorruptMetadataError naming the file.
        """
        path = entry_path(version)
        try:
            data = bytes(self.files.read(path))
        except MissingFileError:
            return None
        entry = decode(version, data, path)
        if entry.edits_file is None:
            return entry
        file = entry.edits_file
        where = f"{CLUSTER_METADATA}/{file.path}"
        found = bytes(self.files.read(where))
        if len(found) != file.bytes or crc32c(found) != file.crc32c:
            raise CorruptMetadataError(
                f"{where}: {len(found)} bytes with CRC-32C {crc32c(found):08x}; {path} says "
                f"{file.bytes} and {file.crc32c:08x}"
            )
        return replace(entry, edits=edits_of(orjson.loads(found), entry.parameters, where))

    def _open(self) -> None:
        """Read the log from the fold that the hint names, else from the one that the mark names.

        An entry that is missing may be the end of the log, or cleaned: the mark tells. It is read
        after the entries, for a cleaner writes it before it deletes any.
        """
        at = self._hinted()
        for _ in range(OPEN_TRIES):
            image = self._folded_at(at)
            if image is not None:
                self._read_on(image)
            mark = newest_mark(self.files, CLUSTER_METADATA)
            if image is None or self._read.version + 1 < mark.first_kept:
                at = mark.fold
                continue
            if self._read.version < at:
                raise CorruptMetadataError(
                    f"{entry_path(self._read.version + 1)} is missing, and {HINT} names {at}: "
                    f"{AFTER_A_POWER_CUT}"
                )
            return
        self._image = None
        raise CorruptMetadataError(
            f"{CLUSTER_METADATA}: entries are missing below {mark.first_kept}, and entry "
            f"{mark.fold}, whose fold covers them: run sparklog verify"
        )

    def _folded_at(self, version: int) -> Image | None:
        """Return the image that the fold of an entry leaves; None when the entry is gone.

        The empty image for version -1.
        """
        self._log_id, self.bytes_behind = "", 0
        if version < 0:
            if self.files.stat(entry_path(0)) is None:
                if newest_mark(self.files, CLUSTER_METADATA).fold >= 0:
                    return None
                raise MissingFileError(
                    f"{CLUSTER_METADATA}: no metadata log here, {entry_path(0)} is missing"
                )
            return Image()
        entry = self.read_entry(version)
        if entry is None:
            return None
        fold = fold_of(entry)
        if fold is None:
            raise CorruptMetadataError(f"{HINT} names {entry.version}, which is no fold")
        self._log_id = entry.log
        try:
            return self.runs.covered(fold)
        except MissingFileError:
            if newest_mark(self.files, CLUSTER_METADATA).first_kept > version:
                return None  # cleaned between the two reads
            raise

    def _hinted(self) -> int:
        try:
            return int(orjson.loads(bytes(self.files.read(HINT)))["version"])
        except MissingFileError:
            return -1
        except (ValueError, KeyError, TypeError):
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
        request = _Request(plan, topics)
        with self._queueing:
            self._queue.append(request)
        with self._committing:
            if not request.is_settled:
                with self._queueing:
                    batch, self._queue = self._queue, []
                try:
                    self._land(batch)
                finally:
                    for one in batch:
                        one.is_settled = True
        answer = request.answer()
        if self._flush or not self.files.is_local:
            self.sync(answer.image.version)
        if answer.edit is not None and housekeeping:
            self._after_commit(self)
        return answer

    def _land(self, batch: Sequence[_Request]) -> None:
        """Commit what the requests plan, in one entry; each gets its outcome."""
        topics = [topic_id for request in batch for topic_id in request.topics]
        deadline_ms = self.clock.boot_ms() + COMMIT_TIMEOUT_MS
        tries = 0
        try:
            self.image(topics)  # what is long to read is read before the turn
            with self._turn.taken():
                while not self._try(batch, topics):
                    tries += 1
                    if self.clock.boot_ms() > deadline_ms:
                        raise CommitConflictError(
                            f"{CLUSTER_METADATA}: others won {tries} times in a row for "
                            f"{COMMIT_TIMEOUT_MS} ms"
                        )
                    self._pause(tries)
        except SparklogError as error:
            for request in batch:
                request.outcome = error

    def _try(self, batch: Sequence[_Request], topics: Collection[str]) -> bool:
        before = image = self.image(topics)
        looked_ms = self._looked_ms
        stamp = Stamp(before.version + 1, os.urandom(12).hex(), self._time(before))
        edits: list[Edit] = []
        for request in batch:
            edit = request.run(image)
            if edit is not None:
                after = image.apply((edit,), stamp)
                request.outcome = Committed(after, image, edit)
                image = after
                edits.append(edit)
        if not edits:
            return True
        data = self._encoded(stamp, before.stamp.entry_id, edits)
        if not self._put(stamp, data, looked_ms):
            return False
        self.bytes_behind += len(data)
        with self._reading:
            # Another thread may have read the entry and opened topics meanwhile: both are the same.
            if self._read is before:
                self._image = image
        return True

    def _time(self, image: Image) -> int:
        return max(self.clock.now_ms(), image.stamp.timestamp_ms)

    def _encoded(self, stamp: Stamp, previous: str, edits: Sequence[Edit]) -> bytes:
        operations = dict.fromkeys(edit.operation for edit in edits)
        parameters: dict[str, str] = {}
        for edit in edits:
            parameters.update(edit.parameters)
        entry = Entry(
            stamp.version,
            stamp.entry_id,
            previous,
            self._log_id,
            stamp.timestamp_ms,
            ", ".join(operations),
            parameters,
            actions=delta.run_actions(self._read.fold, edits),
        )
        content = encode_edits(edits)
        if len(content) > EDITS_BYTES_MAX:
            name = f"{EDITS}/{stamp.version:020}-{uuid7(stamp.timestamp_ms, os.urandom(10))}.json"
            path = f"{CLUSTER_METADATA}/{name}"
            self.files.put_new(path, content)
            self.files.sync([path])
            entry = replace(entry, edits_file=EditsFile(name, len(content), crc32c(content)))
        return encode(entry, content)

    def _put(self, stamp: Stamp, data: bytes, looked_ms: int) -> bool:
        """Put an entry into its slot; return whether the slot holds it."""
        path, tries = entry_path(stamp.version), 0
        begun_ms = self.clock.boot_ms()
        while True:
            tries += 1
            failure: StorageError | None = None
            try:
                if self.files.put_new(path, data):
                    return self._is_above_mark(stamp, looked_ms)
            except StorageError as error:
                failure = error
            found = self._in_slot(stamp.version, failure)
            if found is not None:
                return found == stamp.entry_id
            if failure is not None and self.files.is_local and tries >= LOCAL_PUT_TRIES:
                raise failure  # no name, so no entry: a link is made or is not
            if self.clock.boot_ms() - begun_ms > PUT_TIMEOUT_MS:
                raise CommitOutcomeUnknownError(
                    f"{path}: the entry was put {tries} times in {PUT_TIMEOUT_MS} ms, is not there "
                    f"and may still land ({failure}): replay with the same txnAppId and txnVersion"
                ) from failure
            self._pause(tries)

    def _in_slot(self, version: int, failure: StorageError | None) -> str | None:
        """Return the id of the entry in a slot, None when it is empty."""
        try:
            entry = self.read_entry(version)
        except (StorageError, CorruptMetadataError) as error:
            raise CommitOutcomeUnknownError(
                f"{entry_path(version)}: the entry may have landed ({failure}) and the slot cannot "
                f"be read ({error}): replay with the same txnAppId and txnVersion"
            ) from error
        return None if entry is None else entry.id

    def _is_above_mark(self, stamp: Stamp, looked_ms: int) -> bool:
        """Whether an entry that was put is at the end of the log, and not where it was cleaned.

        A put that was held up may fill a slot whose entry was cleaned long ago: then it is taken
        back, and the history tells whether an earlier try of the same put had landed.
        """
        version = stamp.version
        if self.clock.boot_ms() - looked_ms < self.keep_ms // 4:
            if not version or not self.files.is_local or self.files.stat(entry_path(version - 1)):
                return True
            self.files.delete(entry_path(version))
            self._image = None
            raise MissingFileError(
                f"{entry_path(version - 1)} is gone: the metadata log was deleted or replaced"
            )
        if version >= newest_mark(self.files, CLUSTER_METADATA).first_kept:
            return True
        from sparklog.metadata.history import record_at

        self.files.delete(entry_path(version))
        self._image = None
        try:
            return record_at(self, version).id == stamp.entry_id
        except VersionOutOfRangeError as error:
            raise CommitOutcomeUnknownError(
                f"{entry_path(version)}: the entry was put after it was cleaned, and {error}: "
                f"replay with the same txnAppId and txnVersion"
            ) from error

    def _pause(self, tries: int) -> None:
        longest_ms = 2.0 ** min(tries, BACK_OFF_MAX_EXPONENT)
        self.clock.sleep_ms(longest_ms * random.random())  # noqa: S311 - jitter, not a secret

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
