"""The entries of a metadata log as files: read one, put one, and find out whether it landed.

**Slot N decides.** An object store may answer "exists" after the client's own success, report an
error though the entry is there, or report a conflict though nothing was written. So after every put
that did not simply succeed the slot is read. It holds the same bytes (landed), another entry
(lost), or nothing (the same bytes are put again). No outcome is returned while the slot is empty.
"""

import os
import random
from collections.abc import Callable
from enum import Enum
from typing import Final

from sparklog.clock import Clock
from sparklog.errors import (
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    MissingFileError,
    SparklogError,
    StorageError,
    StoragePermissionError,
)
from sparklog.garbage import without_frames
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.codec.entry import Entry, ReadEntry, decode, parse, parse_edits
from sparklog.metadata.marks import newest_mark
from sparklog.metadata.names import entry_path
from sparklog.metadata.state.edit import Stamp
from sparklog.storage.files import Files

PUT_TIMEOUT_MS: Final = 60_000
"""How long an entry is put again while its slot stays empty."""
LOCAL_PUT_TRIES: Final = 3
"""How often a put to a local disk is tried: waiting does not help a disk that fails."""
REFUSED_PUT_MS: Final = 5_000
"""How long a put is tried if the storage answers every try with "no permission"."""
SEEN_MS: Final = 5_000
"""How long an entry counts as still there after an object store has returned or taken it."""
BACK_OFF_MAX_EXPONENT: Final = 6
REPLAY: Final = "replay with the same txnAppId and txnVersion"


class Outcome(Enum):
    """The outcome of a put."""

    LANDED = "landed"
    LOST = "lost"
    """Another entry has the slot."""
    CLEANED = "cleaned"
    """The slot was filled and cleaned long ago, perhaps by an earlier try of this put.

    The entry that was put there now was deleted again.
    """


class Entries:
    """The entries of one log dir. Usable from any number of threads."""

    def __init__(self, files: Files, clock: Clock, keep_ms: int) -> None:
        """`keep_ms` is how long an entry stays, at least, after a fold has covered it."""
        self._files = files
        self._clock = clock
        self._keep_ms = keep_ms
        self._seen: Stamp | None = None
        self._seen_ms = 0

    def saw(self, stamp: Stamp) -> None:
        """Note that the newest entry is in its slot now, because it was just read or put there."""
        self._seen, self._seen_ms = stamp, self._clock.boot_ms()

    def forget(self) -> None:
        """Forget the newest entry seen: the log dir was restored or replaced."""
        self._seen = None

    def read(self, version: int) -> Entry | None:
        """Return an entry, with its edits; None if there is no entry of this version.

        Raises CorruptMetadataError, which names the file, and as `decode`.
        """
        found = self.parsed(version)
        return None if found is None else found.decoded()

    def parsed(self, version: int) -> ReadEntry | None:
        """Return an entry whose edits are not decoded; None if there is no entry of this version.

        Raises as `read`.
        """
        path = entry_path(version)
        try:
            data = bytes(self._files.read(path))
        except MissingFileError:
            return None
        found = parse(version, data, path)
        file = found.entry.edits_file
        if file is None:
            return found
        where = f"{CLUSTER_METADATA}/{file.path}"
        return parse_edits(bytes(self._files.read(where)), found.entry, where)

    def has(self, version: int) -> bool:
        """Whether there is an entry of this version, by the cheapest call of the storage."""
        if self._files.is_local:
            return os.access(f"{self._files.uri}/{entry_path(version)}", os.F_OK)
        return self._files.stat(entry_path(version)) is not None

    def put(
        self,
        stamp: Stamp,
        data: bytes,
        looked_ms: int,
        ready: Callable[[], None],
    ) -> Outcome:
        """Put an entry into its slot; return the outcome.

        `looked_ms` is the time (`Clock.boot_ms`) at which the slot was seen empty. `ready` waits
        for the files that the entry names, before the entry gets its own name; if it raises, the
        entry is not put.

        Raises StorageError if the entry cannot be put and is not there, CommitOutcomeUnknownError
        if it may have landed, CorruptMetadataError if the log below it is no longer the one that
        was followed; then the entry was deleted again.
        """
        path, tries, is_refused = entry_path(stamp.version), 0, True
        begun_ms = self._clock.boot_ms()
        while True:
            tries += 1
            trouble: SparklogError | None = None
            try:
                has_put = self._files.put_new(path, data, ready=ready)
            except StorageError as error:
                has_put, trouble = False, without_frames(error)  # they hold the commit's requests
            if has_put:
                return self._landed(stamp, looked_ms)
            is_refused = is_refused and isinstance(trouble, StoragePermissionError)
            found, unread = self._in_slot(stamp.version)
            if found is not None:
                if found != data:
                    return self._lost(stamp.version, found)
                return self._landed(stamp, looked_ms)
            waited_ms = self._clock.boot_ms() - begun_ms
            if is_refused and trouble is not None and waited_ms > REFUSED_PUT_MS:
                raise trouble  # nothing that was put can still land
            self._check_patience(path, tries, waited_ms, trouble, unread)
            self.pause(tries)

    def _in_slot(self, version: int) -> tuple[bytes | None, StorageError | None]:
        """Return the bytes in a slot, and the error; neither if the slot is empty."""
        try:
            return bytes(self._files.read(entry_path(version))), None
        except MissingFileError:
            return None, None
        except StorageError as error:
            return None, without_frames(error)

    def _lost(self, version: int, found: bytes) -> Outcome:
        try:
            decode(version, found, entry_path(version))
        except SparklogError as error:
            raise CommitOutcomeUnknownError(
                f"{entry_path(version)}: the entry in the slot cannot be read ({error}) and may "
                f"be the one that was put: {REPLAY}"
            ) from error
        return Outcome.LOST

    def _check_patience(
        self,
        path: str,
        tries: int,
        waited_ms: int,
        trouble: SparklogError | None,
        unread: StorageError | None,
    ) -> None:
        """Raise if a put must be given up.

        Raises the put's own error if the slot is surely empty, else CommitOutcomeUnknownError.
        """
        is_hopeless = self._files.is_local and tries >= LOCAL_PUT_TRIES and trouble is not None
        if is_hopeless and unread is None and trouble is not None:
            raise trouble  # a link is made or is not: the slot is empty
        if is_hopeless or waited_ms > PUT_TIMEOUT_MS:
            raise CommitOutcomeUnknownError(
                f"{path}: the entry was put {tries} times and may have landed or still land "
                f"({unread or trouble or 'the slot stays empty'}): {REPLAY}"
            ) from (unread or trouble)

    def _landed(self, stamp: Stamp, looked_ms: int) -> Outcome:
        """Return LANDED for an entry at the log's end, CLEANED for one in a cleaned slot.

        A delayed put may fill a slot whose entry was cleaned long ago; the mark shows that.
        """
        version = stamp.version
        if self._clock.boot_ms() - looked_ms < self._keep_ms // 4:
            if version and self._files.is_local and not self.has(version - 1):
                self._files.delete(entry_path(version))
                raise MissingFileError(
                    f"{entry_path(version - 1)} is gone: the metadata log was deleted or replaced"
                )
        elif self._is_cleaned(version):
            return Outcome.CLEANED
        self._check_log(stamp)
        return Outcome.LANDED

    def _is_cleaned(self, version: int) -> bool:
        """Return whether a slot was cleaned; then its entry is deleted again."""
        path = entry_path(version)
        try:
            is_cleaned = version < newest_mark(self._files).first_kept
            if is_cleaned:
                self._files.delete(path)
        except StorageError as error:
            raise CommitOutcomeUnknownError(
                f"{path} was put late, and it is not known whether its slot was cleaned "
                f"({error}): {REPLAY}"
            ) from error
        return is_cleaned

    def _check_log(self, stamp: Stamp) -> None:
        """Delete an entry again if the log below it was replaced in place.

        A restored bucket keeps its name, and a slot that is free now may be far behind the new end.
        So the entry seen last must still be there. It is read again if it was seen more than
        SEEN_MS ago, so most commits need no further request. On a local disk `_landed` has checked
        it.
        """
        seen = self._seen
        if self._files.is_local:
            return
        if seen is not None and self._clock.boot_ms() - self._seen_ms > SEEN_MS:
            where = entry_path(stamp.version)
            try:
                is_same = self.holds(seen)
                if not is_same and not self.has(stamp.version + 1):
                    self._files.delete(where)
            except SparklogError as error:
                raise CommitOutcomeUnknownError(
                    f"{where} was put; whether the log before it is still there is not known "
                    f"({error}): {REPLAY}"
                ) from error
            if not is_same:
                raise CorruptMetadataError(
                    f"{entry_path(seen.version)} is not the one that was followed: the log dir was "
                    f"restored or replaced; open it anew"
                )
        self.saw(stamp)

    def holds(self, seen: Stamp) -> bool:
        """Return whether the file of a version still has the entry `seen`. Raises as `decode`."""
        path = entry_path(seen.version)
        try:
            entry = decode(seen.version, bytes(self._files.read(path)), path)
        except MissingFileError:
            return False
        return entry.is_foreign or entry.id == seen.entry_id

    def pause(self, tries: int) -> None:
        """Wait a random time, longer with every try, so that committers do not collide again."""
        longest_ms = 2.0 ** min(tries, BACK_OFF_MAX_EXPONENT)
        self._clock.sleep_ms(longest_ms * random.random())  # noqa: S311 - jitter, not a secret
