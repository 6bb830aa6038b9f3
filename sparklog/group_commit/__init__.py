"""Group commit: requests that arrive together share one commit, whatever their topics.

    queue             requests wait, a group is taken, its requests are answered    asyncio
    writer            writes a group to segments, and commits one entry             on a thread
    share             the requests of one topic that go through a round together
    slices            encodes the small records of all topics together
    rows              the records of requests: columns, partitions, ranks           arrays

    appends           batches that clients have encoded wait for their commit       asyncio
    append_thread     the thread that writes groups
    append_writer     checks a group of them, writes it, and commits one entry      on a thread
    append_topics     the batches of a topic, and its part of the entry
    append_partition  the batches of a partition: verdicts, offsets, rows
    append_slots      a batch that waits, and its outcome
    admission         whether a transactional batch may be appended
    failed_firsts     batches that the storage failed, before those of the same producer

A request is acknowledged when the commit is durable, with the offsets of its records. The services
build on this package; it knows no protocol. A module is loaded when it is first used: a service
that takes encoded batches does not load the encoder.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sparklog.group_commit.append_slots import Append, AppendCounts, Appended
    from sparklog.group_commit.appends import AppendCommit, AppendLimits
    from sparklog.group_commit.queue import GroupCommit, GroupLimits
    from sparklog.group_commit.rows import Request, Rows
    from sparklog.group_commit.share import Counts, Written
    from sparklog.group_commit.writer import GroupWriter

_MODULES: Final = {
    "Append": "append_slots",
    "AppendCommit": "appends",
    "AppendCounts": "append_slots",
    "AppendLimits": "appends",
    "Appended": "append_slots",
    "Counts": "share",
    "GroupCommit": "queue",
    "GroupLimits": "queue",
    "GroupWriter": "writer",
    "Request": "rows",
    "Rows": "rows",
    "Written": "share",
}

__all__ = [
    "Append",
    "AppendCommit",
    "AppendCounts",
    "AppendLimits",
    "Appended",
    "Counts",
    "GroupCommit",
    "GroupLimits",
    "GroupWriter",
    "Request",
    "Rows",
    "Written",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
