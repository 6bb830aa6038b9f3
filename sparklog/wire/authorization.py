"""Authorization: the scope that a request needs, and the code for a client that does not have it.

Every handler calls `call.allows(scope, name, resource)` before it acts or answers, with the name
that the client gave: so a refusal does not show whether a topic exists. The handler answers
`DENIED[resource]` for this topic, group or id, and serves the others of the request. A request that
only lists a resource needs `call.sees(name)`, which any scope gives.

    Produce, InitProducerId without an id    WRITE topic (of InitProducerId: any, KIP-679)
    Fetch, ListOffsets, OffsetForLeaderEpoch, DescribeProducers
                                             READ topic
    Metadata, DescribeTopicPartitions        sees topic; lists leave out what is not seen
    DescribeConfigs                          sees topic; brokers: sees cluster
    ListConfigResources                      sees cluster; leaves out topics that are not seen
    CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, AlterConfigs,
    IncrementalAlterConfigs                  ADMIN topic; configs of brokers: ADMIN cluster
    DescribeLogDirs                          lists leave out what is not seen
    DescribeUserScramCredentials, DescribeAcls, DescribeClientQuotas, DescribeQuorum
                                             READ cluster
    AlterUserScramCredentials, ElectLeaders, AlterPartitionReassignments, AlterReplicaLogDirs
                                             ADMIN cluster
    groups, offsets                          READ group, and READ topic for each topic
    DeleteGroups, OffsetDelete               ADMIN group
    transactions                             WRITE transactional id, and WRITE topic
    DescribeTransactions, ListTransactions   sees transactional id, sees topic
    WriteTxnMarkers                          ADMIN cluster
    ApiVersions, DescribeCluster, ListPartitionReassignments, Sasl…
                                             nothing

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
