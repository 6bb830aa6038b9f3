"""Authorization: the scope that a request needs, and the error code for a client without it.

Every handler calls `call.allows(scope, name, resource)` before it acts or answers, with the name
that the client gave: so a refusal does not show whether a topic exists. The handler answers
`DENIED[resource]` for this topic, group or id, and serves the others of the request. A request that
only lists or describes needs `call.sees(name)`: any scope on the resource allows it.

    Produce, InitProducerId without an id    WRITE topic (of InitProducerId: any, KIP-679)
    Fetch, ListOffsets, OffsetForLeaderEpoch, DescribeProducers
                                             READ topic
    Metadata, DescribeTopicPartitions        sees topic; lists leave out topics not seen
    DescribeConfigs                          sees topic; brokers: sees cluster
    ListConfigResources                      sees cluster; leaves out topics not seen
    CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, AlterConfigs,
    IncrementalAlterConfigs                  ADMIN topic; configs of brokers: ADMIN cluster
    DescribeLogDirs                          READ cluster; leaves out topics not seen
    DescribeUserScramCredentials, DescribeAcls, DescribeClientQuotas, DescribeQuorum,
    ListPartitionReassignments               READ cluster
    AlterUserScramCredentials, ElectLeaders, AlterPartitionReassignments, AlterReplicaLogDirs
                                             ADMIN cluster
    FindCoordinator                          sees group, or sees transactional id
    DescribeGroups, ConsumerGroupDescribe    sees group (of the last: sees its topics, too);
                                             ListGroups leaves out groups not seen
    JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat
                                             READ group (of the last: sees topic, too)
    OffsetCommit, OffsetFetch                READ group, and READ topic
    DeleteGroups                             ADMIN group
    OffsetDelete                             ADMIN group, and READ topic
    InitProducerId with an id, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn
                                             WRITE transactional id; for partitions WRITE topic,
                                             for a group READ group, for its offsets READ topic
    DescribeTransactions, ListTransactions   sees transactional id, sees topic
    WriteTxnMarkers                          ADMIN cluster
    ApiVersions, DescribeCluster, Sasl…      nothing

A topic that Metadata or a produce would create needs ADMIN.
"""

from collections.abc import Mapping
from typing import Final

from sparklog.errors import ErrorCode
from sparklog.tokens import Resource

DENIED: Final[Mapping[Resource, ErrorCode]] = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
