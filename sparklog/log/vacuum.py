"""Which files of a topic vacuum deletes: files that no row names, now or later.

    file                                               fate
    of a live segment, or of one removed lately        kept
    of a segment removed longer ago than the delay     removed: deleted
    of no segment, its uuid older than the horizon     orphan: deleted
    of no segment, its uuid younger                    kept: its writer may be about to commit
    of another name, or in another directory           unknown: left alone, and reported
    below quarantine/                                  not listed

A file's age is the time in its uuid, never its modification time. Every commit refuses a file that
it names for the first time and that is older than the horizon. So an orphan stays an orphan.

The horizon is just above the youngest file that goes. A higher one would protect no file, and if
the clock of the machine is ahead, it would refuse all files that other machines write.
"""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from enum import StrEnum

from sparklog.log.names import QUARANTINE, parse_segment_name, uuid7_ms

_QUARANTINED = f"{QUARANTINE}/"
_PARTITION_DIR = re.compile(r".+-[0-9]+")


class Fate(StrEnum):
    """Whether vacuum keeps or deletes a file, and why."""

    KEPT = "kept"
    REMOVED = "removed"
    ORPHAN = "orphan"
    UNKNOWN = "unknown"


def fates(
    paths: Iterable[str], kept: AbstractSet[str], released: AbstractSet[str], horizon_ms: int
) -> dict[Fate, list[str]]:
    """Return the files of a topic by their fate; paths are relative to the topic's directory.

    `kept` are the files of live segments and of segments removed lately, `released` those of
    segments removed long enough ago. A file in both is kept. `horizon_ms`: since the epoch.
    """
    found: dict[Fate, list[str]] = {fate: [] for fate in Fate}
    for path in paths:
        if path.startswith(_QUARANTINED):
            continue
        if path in kept:
            found[Fate.KEPT].append(path)
        elif path in released:
            found[Fate.REMOVED].append(path)
        else:
            directory, _, name = path.rpartition("/")
            found[_fate_of_stranger(directory, name, horizon_ms)].append(path)
    return found


def horizon_above(births_ms: Iterable[int], limit_ms: int) -> int:
    """Return the horizon (ms) for files that were made at these times: `limit_ms` at most."""
    return max(0, min(max(births_ms, default=-1) + 1, limit_ms))


def _fate_of_stranger(directory: str, name: str, horizon_ms: int) -> Fate:
    """Return the fate of a file that no row of the metadata names."""
    parsed = parse_segment_name(name)
    if parsed is None or parsed.uuid is None or not _PARTITION_DIR.fullmatch(directory):
        return Fate.UNKNOWN
    return Fate.ORPHAN if uuid7_ms(parsed.uuid) < horizon_ms else Fate.KEPT
