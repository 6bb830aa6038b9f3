"""Group commit: requests that arrive together share one commit, whatever their topics.

    queue           requests wait, a group is taken, its requests are answered    asyncio
    writer          a group to segments and one entry of the metadata log         on a thread
    share           the requests of one topic that go through a round together
    slices          the small records of all topics, encoded together
    rows            the records of requests: columns, partitions, ranks           arrays

    appends         batches that clients have encoded wait for their commit       asyncio
    append_writer   a group of them, checked, to segments and one entry           on a thread
    append_topics   the batches of a topic, and its part of the entry
    append_partition  the batches of a partition: decided, numbered, as rows
    append_slots    a batch that waits, and its outcome

A request is acknowledged when the commit is durable, with the offsets of its records. Services
stand on it; it knows no protocol. A module is loaded when it is first used: a service of batches
does without the encoder.
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
