"""Housekeeping: folds that are due, and cleaning.

    keep_house           after a commit, in a thread of its own: a fold takes tens of milliseconds
                         or more, and no commit waits for it
    keep_house_late      the same in a service: only if its housekeeper has not folded for long
    keep_house_while     in a housekeeper (`sparklog.service.housekeeper`), which folds all the time

A process that ends waits at most EXIT_WAIT_SECONDS for its fold; an interrupted fold leaves files
that no entry names. A forked child begins without the thread; `follow` gives its logs new locks. A
failure is only logged, because no committed data depends on housekeeping. A commit after
FOLD_RETRY_MS, or the next look of a housekeeper, tries again.
"""

import atexit
import logging
import os
from collections.abc import Callable
from threading import Lock, Thread
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa

from sparklog.errors import MissingFileError, SparklogError, StorageError
from sparklog.garbage import seldom_collected
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import FOLD_EVERY, fold, is_due, is_overdue
from sparklog.storage.at_once import in_background

CLEANS_PER_KEEP: Final = 10
"""How often a process cleans within `keep_ms`: each cleaning lists the entries. If a cleaning has
left files, the next fold goes on with it."""
FOLD_RETRY_MS: Final = 5_000
EXIT_WAIT_SECONDS: Final = 5.0
LOOK_S: Final = 1.0
"""How often a housekeeper looks whether a fold is due."""
FOLD_PAUSE_MS: Final = 10_000
"""The shortest pause between two folds of a housekeeper. A segment that is added and removed within
the pause never becomes a row."""
FOLD_TIMES: Final = 20
"""After a fold has begun, the next one begins this many times its duration later. So folds and
cleaning take 5 % of a core at most, unless a fold takes three seconds, or too much waits (SOON)."""
FOLD_PAUSE_MAX_MS: Final = 60_000
"""The longest pause: with a longer one the service would believe that its housekeeper is dead."""
SOON: Final = 8
"""A housekeeper folds before the end of the pause if the entries behind the last fold are this many
times the limits of `fold`."""
LATE: Final = 4
LATE_MS: Final = 60_000
"""A service folds itself if for LATE_MS the entries behind the last fold are LATE times the limits
of `fold`: then its housekeeper does not work."""

_logger: Final = logging.getLogger(__name__)


class _House:
    """The state of one log's housekeeping in this process."""

    def __init__(self) -> None:
        self.thread: Thread | None = None
        self.cleaned_ms: int | None = None
        self.failed_ms: int | None = None
        self.overdue: tuple[int, int] | None = None
        """The last fold's cover, and the time since when the next one is overdue."""


_houses: WeakKeyDictionary[MetadataLog, _House] = WeakKeyDictionary()
_lock = Lock()


def _begin_anew() -> None:
    """Forget the parent's threads, which are not in the child, and the lock that they may hold."""
    global _lock, _houses  # noqa: PLW0603 - a lock that the parent held would never be released
    _lock = Lock()
    _houses = WeakKeyDictionary()


def wait_for_folds() -> None:
    """Wait until the folds of this process are done, EXIT_WAIT_SECONDS at most for each."""
    with _lock:
        threads = [house.thread for house in _houses.values()]
    for thread in threads:
        if thread is not None and thread.is_alive():  # it may have not begun yet
            thread.join(EXIT_WAIT_SECONDS)


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(wait_for_folds)


def keep_house(log: MetadataLog) -> None:
    """Fold in the background if a fold is due; for one log only one thread at a time."""
    if is_due(log.last_image, log.bytes_behind):
        _fold_in_background(log)


def keep_house_late(log: MetadataLog) -> None:
    """Fold in the background if the housekeeper should have folded long ago."""
    image = log.last_image
    if not is_overdue(image, log.bytes_behind, LATE):
        return
    house, now_ms = _house_of(log), log.clock.boot_ms()
    if house.overdue is None or house.overdue[0] != image.fold.cover:
        house.overdue = image.fold.cover, now_ms
    if now_ms - house.overdue[1] >= LATE_MS:
        _fold_in_background(log)


def _house_of(log: MetadataLog) -> _House:
    with _lock:
        return _houses.setdefault(log, _House())


def _fold_in_background(log: MetadataLog) -> None:
    house = _house_of(log)
    with _lock:
        failed_ms = house.failed_ms
        is_early = failed_ms is not None and log.clock.boot_ms() - failed_ms < FOLD_RETRY_MS
        if house.thread is not None or is_early:
            return
        house.thread = Thread(target=_keep, args=(log, house), name="sparklog-fold", daemon=True)
    try:
        house.thread.start()
    except RuntimeError:  # no thread is left, or the interpreter ends
        house.thread = None


def keep_house_while(waits: Callable[[int, float], bool], log: MetadataLog) -> None:
    """Fold and clean in this thread, as long as `waits` returns True.

    `waits` gets the newest known version, and the seconds to rest. A fold is due if FOLD_EVERY
    entries lie behind and the pause is over (`_pause_ms`). An error of the storage is only logged.
    Raises MissingFileError, CorruptMetadataError and LogDirError as `MetadataLog.image`.
    """
    house, image = _House(), log.image()
    due_ms = log.clock.boot_ms() + FOLD_PAUSE_MS
    while waits(image.version, LOOK_S):
        try:
            image = log.image()
        except MissingFileError:
            raise
        except StorageError as error:
            _logger.warning("the metadata log could not be read: %s", error)
            continue
        is_much = image.version - image.fold.cover >= FOLD_EVERY
        begun_ms = log.clock.boot_ms()
        if (is_much and begun_ms >= due_ms) or is_overdue(image, log.bytes_behind, SOON):
            _fold_and_clean(log, house)
            took_ms = log.clock.boot_ms() - begun_ms
            due_ms = begun_ms + _pause_ms(took_ms if house.failed_ms is None else 0)


def _pause_ms(took_ms: int) -> int:
    """Return the time between the begins of two folds, if the first takes `took_ms`."""
    return min(max(FOLD_PAUSE_MS, FOLD_TIMES * took_ms), FOLD_PAUSE_MAX_MS)


def _keep(log: MetadataLog, house: _House) -> None:
    try:
        _fold_and_clean(log, house)
    finally:
        house.thread = None


def _fold_and_clean(log: MetadataLog, house: _House) -> None:
    try:
        # Few garbage collections during a fold: a commit would wait ten milliseconds for each.
        with in_background(), seldom_collected():
            fold(log)
            _clean_now_and_then(log, house)
        # No other thread would use the memory that this one has freed.
        pa.default_memory_pool().release_unused()
        house.failed_ms = None
    except Exception as error:
        # Once is no warning: at the end of a process Python refuses new threads, so a fold fails.
        level = logging.INFO if house.failed_ms is None else logging.WARNING
        trace = None if isinstance(error, SparklogError) else error
        _logger.log(level, "a fold failed; it is tried again later: %s", error, exc_info=trace)
        house.failed_ms = log.clock.boot_ms()


def _clean_now_and_then(log: MetadataLog, house: _House) -> None:
    now_ms = log.clock.boot_ms()
    if house.cleaned_ms is None or now_ms - house.cleaned_ms >= log.keep_ms // CLEANS_PER_KEEP:
        house.cleaned_ms = now_ms
        cleaned = clean(log)
        if cleaned is not None and cleaned.left:
            house.cleaned_ms = None
