"""Administration of a log dir: topics, configs and offsets.

client     AdminClient, with the names and rules of Kafka's own: all that is asked, or nothing
each       the same, each topic for itself: all that can be done, and an error for the rest
changes    what both do to a topic: pure functions of its description or image
"""

from sparklog.admin.changes import AlterConfigOp, NewTopic, OpType
from sparklog.admin.client import LATEST_TIMESTAMP, AdminClient
from sparklog.admin.each import EachTopic, Outcome

__all__ = [
    "LATEST_TIMESTAMP",
    "AdminClient",
    "AlterConfigOp",
    "EachTopic",
    "NewTopic",
    "OpType",
    "Outcome",
]
