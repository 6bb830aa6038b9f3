"""Group commit: requests that arrive within linger.ms share one commit, whatever their topics.

    queue     requests wait, a group is taken, its requests are answered    asyncio
    writer    a group to segments and one entry of the metadata log         on a thread
    share     the requests of one topic that go through a round together
    slices    the small records of all topics, encoded together
    rows      the records of requests: columns, partitions, ranks           arrays

A request is acknowledged when the commit is durable, with the offsets of its records.
Services stand on it; it knows no protocol.
"""

from sparklog.group_commit.queue import GroupCommit, GroupLimits
from sparklog.group_commit.rows import Request, Rows
from sparklog.group_commit.share import Counts, Written
from sparklog.group_commit.writer import GroupWriter

__all__ = ["Counts", "GroupCommit", "GroupLimits", "GroupWriter", "Request", "Rows", "Written"]
