"""Following the metadata log: open it at a fold, and apply every entry behind the fold.

A follower lists nothing: it reads entry N + 1, N + 2 and so on until one is not there. Each entry
names its predecessor, so a follower notices a hole, a restored backup, and a store that loses puts.
"""

import os
from collections.abc import Collection, Mapping
from threading import RLock
from typing import Final
from weakref import WeakSet

import orjson

from sparklog.clock import Clock
from sparklog.errors import CorruptMetadataError, MissingFileError, SparklogError
from sparklog.garbage import without_frames
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.codec.entry import Entry
from sparklog.metadata.entries import Entries
from sparklog.metadata.marks import newest_mark
from sparklog.metadata.names import ENTRIES, HINT, entry_path
from sparklog.metadata.runs.store import Runs
from sparklog.metadata.state.edit import FoldEdit, Stamp
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.metadata.turn import Turn
from sparklog.storage.files import Files

RESTORE: Final = "RESTORE"
"""The operation of the entry that begins another incarnation of the log."""
OPEN_TRIES: Final = 8
"""How often a process that opens the log begins again because a cleaner was faster."""
KEEP_LOCAL_MS: Final = 10 * 60_000
KEEP_REMOTE_MS: Final = 60 * 60_000
"""The least time that an entry stays after a fold has covered it, by the store's own clock."""


def fold_of(entry: Entry | None) -> FoldEdit | None:
    """Return the fold of an entry; None if the entry is no fold, or is missing (None)."""
    for edit in () if entry is None else entry.edits:
        if edit.fold is not None:
            return edit.fold
    return None


def hinted_version(files: Files, hint: str) -> int:
    """Return the version that HINT or POINTER names; -1 if the hint is missing or torn."""
    try:
        return int(orjson.loads(bytes(files.read(hint)))["version"])
    except (MissingFileError, ValueError, KeyError, TypeError):
        return -1


class FollowedLog:
    """The metadata log of one log dir, to follow. Usable from any number of threads."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self.files = files
        self.clock = clock
        self.runs = Runs(files)
        self.entries = Entries(files, clock, self.keep_ms)
        self.bytes_behind = 0
        """About how many bytes the entries behind the newest fold have."""
        self._turn = Turn(files, ENTRIES, clock)
        self._image: Image | None = None
        """As of the entry that was read or committed last; None before the first."""
        self._log_id = ""
        """The incarnation of that entry; "" before the first."""
        self._looked_ms = 0
        """When an entry behind it was looked for last (`Clock.boot_ms`)."""
        self._is_opening = False
        """True while the log is being opened: its entries may belong to another log then."""
        self._reading = RLock()
        """Held while entries are read: one thread reads for all."""
        _logs.add(self)

    def begin_anew(self) -> None:
        """Make new locks after a fork: the child lacks the threads that hold the old ones."""
        self._reading = RLock()

    @property
    def log_id(self) -> str:
        """The incarnation of the log dir that was opened; a restored copy has another one."""
        return self._log_id

    def last_versions(self) -> dict[str, int]:
        """Return the last version that this log has of each incarnation, by incarnation.

        For the present incarnation it is the version that was read last. Later versions of an
        earlier incarnation exist only in the log dir that this one was restored from.
        """
        return {**dict(self.last_image.ended_logs), self._log_id: self.last_image.version}

    @property
    def keep_ms(self) -> int:
        """How long (ms) entries stay after they were folded."""
        return KEEP_LOCAL_MS if self.files.is_local else KEEP_REMOTE_MS

    def image(self, topics: Collection[str] = ()) -> Image:
        """Return the newest image, with these topics (ids) opened; unknown ids are ignored.

        Raises MissingFileError without a log, CorruptMetadataError, which names the file that
        cannot be read, LogDirError for a log of another format or a newer release.
        """
        with self._reading:
            self._follow()
            try:
                image = self._image = self.opened_at(self.last_image, topics)
            except MissingFileError:
                self._check_not_replaced()
                raise
            return image

    @property
    def last_version(self) -> int | None:
        """The version that was read or committed last; None before the first."""
        image = self._image  # another thread may forget it meanwhile
        return None if image is None else image.version

    @property
    def last_ms(self) -> int:
        """The time (ms) of the entry that was read or committed last; 0 before the first."""
        image = self._image
        return 0 if image is None else image.stamp.timestamp_ms

    @property
    def last_image(self) -> Image:
        """The image that was read or committed last. Raises MissingFileError before the first."""
        image = self._image
        if image is None:
            raise MissingFileError(f"{CLUSTER_METADATA}: the log was not read yet")
        return image

    def known(self, topic_id: str) -> TopicImage | None:
        """Return a topic as of the version read last, without a look; None if it is not open."""
        image = self._image
        topic = None if image is None else image.topic(topic_id)
        return topic if topic is not None and topic.is_open else None

    def current(self) -> Image | None:
        """Return the image read last if no commit came since, without reading a file.

        None if there may be a newer image, if none was read yet, and on an object store.
        """
        image = self._image
        if image is None or not self.files.is_local or self._is_late():
            return None
        has = self.entries.has
        is_newest = not has(image.version + 1) and has(image.version)
        return image if is_newest and not self._turn.is_replaced() else None

    def is_behind(self, topics: Collection[str]) -> bool:
        """Whether `image(topics)` will probably read files.

        On an object store only the topics count: to look for a new entry would take a request.
        """
        image = self._image
        if image is None or self._is_late() or _unopened(image, topics):
            return True
        return self.files.is_local and self.entries.has(image.version + 1)

    def opened_at(self, image: Image, topics: Collection[str]) -> Image:
        """Return an image with these topics opened, also if it is not the newest one."""
        unopened = _unopened(image, topics)
        if not unopened:
            return image
        return image.with_topics(self.runs.opened(image.fold, unopened))

    def sound_image(self, topics: Collection[str]) -> tuple[Image, Mapping[str, SparklogError]]:
        """Return the newest image with these topics opened, as `sound_at` does.

        Raises as `image` does if the log itself cannot be read.
        """
        with self._reading:
            self._follow()
            image, errors = self.sound_at(self.last_image, topics)
            if any(isinstance(error, MissingFileError) for error in errors.values()):
                self._check_not_replaced()
            self._image = image
            return image, errors

    def sound_at(
        self, image: Image, topics: Collection[str]
    ) -> tuple[Image, Mapping[str, SparklogError]]:
        """Return an image with these topics opened, and the errors of those that cannot be read.

        The errors are by topic id; each topic with an error is not opened.
        """
        try:
            return self.opened_at(image, topics), {}
        except SparklogError:
            errors: dict[str, SparklogError] = {}
        for topic_id in topics:
            try:
                image = self.opened_at(image, [topic_id])
            except SparklogError as error:
                errors[topic_id] = without_frames(error)
        return image, errors

    def go_on_from(self, image: Image, log_id: str) -> None:
        """Go on from `image` as if it was read; repair has built it without damaged files."""
        self._image, self._log_id, self._looked_ms = image, log_id, self.clock.boot_ms()

    # ------------------------------------------------------------------------------------- follow

    def _follow(self) -> None:
        if self._turn.is_replaced():
            self._forget()
            raise MissingFileError(
                f"{ENTRIES} was deleted or replaced by another directory: open the log dir anew"
            )
        if self._image is None or self._is_late():
            self._reopen()
        elif not self._read_on(self._image) and self._lacks(self._image.version):
            # The newest entry is never cleaned. If a clock was set, others may be cleaned early.
            self._reopen()

    def _check_not_replaced(self) -> None:
        """Refuse a log whose newest entry is another one now; that is why a run is missing.

        On an object store a restored log may end before the version that was read last.
        """
        stamp = self.last_image.stamp
        if not self.entries.holds(stamp):
            raise CorruptMetadataError(
                f"{entry_path(stamp.version)} is not the one that was followed: the log dir was "
                f"restored or replaced; open it anew"
            )

    def _read_on(self, image: Image) -> bool:
        """Apply all entries behind an image; return whether there are any."""
        self._image, known = image, image
        self._looked_ms = self.clock.boot_ms()
        # Mostly there is no next entry, and a failed open takes longer than to ask for its name.
        while not self._lacks(image.version + 1):
            entry = self.entries.read(image.version + 1)
            if entry is None:
                break
            image = self._image = self._after(image, entry)
        if image is known:
            return False
        self.entries.saw(image.stamp)
        return True

    def _lacks(self, version: int) -> bool:
        """Whether a local disk has no entry of this version; an object store is not asked."""
        return self.files.is_local and not self.entries.has(version)

    def _is_late(self) -> bool:
        """Whether entries that were not read yet may have been cleaned by now."""
        return self.clock.boot_ms() - self._looked_ms > self.keep_ms // 2

    def _after(self, image: Image, entry: Entry) -> Image:
        """Return the image after an entry. Raises CorruptMetadataError if it does not follow."""
        known = image.stamp
        self.bytes_behind = 0 if fold_of(entry) is not None else self.bytes_behind + entry.bytes
        if entry.is_foreign:
            stamp = Stamp(entry.version, known.entry_id, known.timestamp_ms)
            return image.apply((), stamp)
        is_other_log = bool(self._log_id) and entry.log != self._log_id
        if is_other_log and entry.operation == RESTORE and not self._is_opening:
            raise CorruptMetadataError(
                f"{entry_path(entry.version)}: the log dir was restored from a backup as log "
                f"{entry.log}; this process followed log {self._log_id}: open it anew"
            )
        if entry.previous != known.entry_id or (is_other_log and entry.operation != RESTORE):
            raise CorruptMetadataError(
                f"{entry_path(entry.version)} follows entry {entry.previous!r} of log {entry.log}; "
                f"version {image.version} here is {image.stamp.entry_id!r} of log {self._log_id}: "
                f"the log dir was restored or replaced, or its store does not keep "
                f"put-if-absent; open it anew"
            )
        self._log_id = entry.log
        try:
            return image.apply(entry.edits, entry.stamp)
        except CorruptMetadataError as error:
            raise CorruptMetadataError(f"{entry_path(entry.version)}: {error}") from None

    # --------------------------------------------------------------------------------------- open

    def _reopen(self) -> None:
        """Open the log anew; refuse another log, and a version older than the one read before."""
        known, log_id, looked_ms = self._image, self._log_id, self._looked_ms
        self._is_opening = True
        try:
            self._open()
        except BaseException:
            if log_id:  # the next try must refuse another log as well
                self._image, self._log_id, self._looked_ms = known, log_id, looked_ms
            raise
        finally:
            self._is_opening = False
        found = self.last_image
        is_other = log_id and self._log_id != log_id
        if is_other or (known is not None and found.version < known.version):
            other_id = self._log_id
            self._forget()
            raise CorruptMetadataError(
                f"{CLUSTER_METADATA}: version {found.version} of log {other_id} where log {log_id} "
                f"was followed: the log dir was restored or replaced; open it anew"
            )
        self._turn.hold()

    def _forget(self) -> None:
        """Forget the log that was followed: the next open is a first one."""
        self._turn.forget()
        self.entries.forget()
        self._image, self._log_id = None, ""

    def _open(self) -> None:
        """Read the log from the fold that the hint names, else from the fold that the mark names.

        A missing entry is either the end of the log or was cleaned; the mark tells which. It is
        read after the entries, because a cleaner writes it before it deletes an entry.
        """
        at = hinted_version(self.files, HINT)
        for _ in range(OPEN_TRIES):
            image = self._folded_at(at)
            if image is not None:
                self._read_on(image)
            mark = newest_mark(self.files)
            if image is None or self.last_image.version + 1 < mark.first_kept:
                at = mark.fold
                continue
            if self.last_image.version < at:
                raise CorruptMetadataError(
                    f"{entry_path(self.last_image.version + 1)} is missing, and {HINT} names {at}: "
                    f"after a power cut, run sparklog verify --repair"
                )
            return
        self._image = None
        raise CorruptMetadataError(
            f"{CLUSTER_METADATA}: entries are missing below {mark.first_kept}, and entry "
            f"{mark.fold}, whose fold covers them: run sparklog verify"
        )

    def _folded_at(self, version: int) -> Image | None:
        """Return the image that a fold leaves; None if its entry is gone, or is no fold.

        For version -1 it is the empty image. A copy that was made while commits went on may have a
        hint from after the last entry that it has: then another entry gets that version.
        """
        self._log_id, self.bytes_behind = "", 0
        if version < 0:
            return self._empty()
        entry = self.entries.read(version)
        fold = fold_of(entry)
        if entry is None or fold is None:
            return None
        self._log_id = entry.log
        try:
            return self.runs.image(fold)
        except MissingFileError:
            if newest_mark(self.files).first_kept > version:
                return None  # cleaned between the two reads
            raise

    def _empty(self) -> Image | None:
        if self.entries.has(0):
            return Image()
        if newest_mark(self.files).fold >= 0:
            return None
        raise MissingFileError(
            f"{CLUSTER_METADATA}: no metadata log here, {entry_path(0)} is missing"
        )


_logs: Final[WeakSet[FollowedLog]] = WeakSet()
"""Every log of this process; a forked child has them too."""


def _begin_anew() -> None:
    for log in list(_logs):
        log.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)


def _unopened(image: Image, topics: Collection[str]) -> dict[str, TopicImage]:
    """Return those of some topics (ids) that the image has and that are not open."""
    known = image.topics
    return {
        topic_id: topic
        for topic_id in topics
        if (topic := known.get(topic_id)) is not None and not topic.is_open
    }
