"""Administration of a log dir: topics, configs and offsets.

client         AdminClient, as Kafka's own: each call changes all topics that it names, or none
each           the same for each topic separately: it makes the allowed changes, and returns an
               error for each of the others
changes        the changes that both make to a topic: pure functions of its description or image
groups         consumer groups: their members and offsets, without a gateway
transactions   transactional ids: listed, described, their transactions aborted
lags           how far groups are behind the log ends; kafka_metrics: the same for Prometheus
lag_states     the states of lags, from the commits and log ends (log_ends) of the last hour
lag_history    the lag of a group over the last hour
erase          the records of some keys, removed from the log (erase_segment) and the table
               (erase_table)
"""

from sparklog.admin.changes import AlterConfigOp, NewTopic, OpType
from sparklog.admin.client import AdminClient
from sparklog.admin.each import EachTopic, Outcome
from sparklog.admin.groups import (
    ConsumerGroupDescription,
    ConsumerGroupListing,
    MemberDescription,
)
from sparklog.admin.transactions import TransactionDescription
from sparklog.coordinator.lag import PartitionLag
from sparklog.coordinator.lag_state import LagState
from sparklog.coordinator.requests import CommittedOffset
from sparklog.model import LATEST as LATEST_TIMESTAMP

__all__ = [
    "LATEST_TIMESTAMP",
    "AdminClient",
    "AlterConfigOp",
    "CommittedOffset",
    "ConsumerGroupDescription",
    "ConsumerGroupListing",
    "EachTopic",
    "LagState",
    "MemberDescription",
    "NewTopic",
    "OpType",
    "Outcome",
    "PartitionLag",
    "TransactionDescription",
]
