"""Which files of a topic go, decided file by file."""

import re
from collections.abc import Iterable

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def fate(path: str, kept: Iterable[str], released: Iterable[str], horizon_ms: int) -> str | None:
    """kept, removed, orphan, unknown; None for what is not looked at."""
    parts = path.split("/")
    if parts[0] == "quarantine" and len(parts) > 1:
        return None
    if path in set(kept):
        return "kept"
    if path in set(released):
        return "removed"
    if len(parts) != 2 or not parts[0].rpartition("-")[2].isdecimal() or "-" not in parts[0][1:]:
        return "unknown"
    name = parts[1].split(".")
    if len(name) != 3 or len(name[0]) != 20 or not name[0].isdecimal():
        return "unknown"
    if name[2] not in ("log", "index", "timeindex", "keyindex") or not UUID7.fullmatch(name[1]):
        return "unknown"
    born_ms = int(name[1].replace("-", "")[:12], 16)
    return "orphan" if born_ms < horizon_ms else "kept"
