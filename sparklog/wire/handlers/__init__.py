"""Handlers: one function for each API, which makes the answer to a request.

    records/        records and their offsets: Produce, Fetch, ListOffsets
    transactional/  idempotent and transactional producers
    groups/         consumer groups and their offsets
    admin/          topics, configs, the cluster
    call            one request for a handler
    failed          the answer where a handler fails

A handler takes a Call and returns a Reply, an awaitable of one, or a Later. Work that depends on
the order of arrival is done in the call itself, not when the result is awaited. A reply is the
pieces of the answer's body, in order; None is no answer (acks=0).
"""

from collections.abc import Callable, Mapping
from typing import Final

from sparklog.wire.handlers.admin.alter_configs import alter_configs, incremental_alter_configs
from sparklog.wire.handlers.admin.cluster import (
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_quorum,
)
from sparklog.wire.handlers.admin.describe_configs import describe_configs, list_config_resources
from sparklog.wire.handlers.admin.log_dirs import alter_replica_log_dirs, describe_log_dirs
from sparklog.wire.handlers.admin.metadata import metadata
from sparklog.wire.handlers.admin.replicas import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from sparklog.wire.handlers.admin.topic_partitions import describe_topic_partitions
from sparklog.wire.handlers.admin.topics import create_partitions, create_topics, delete_topics
from sparklog.wire.handlers.admin.users import alter_users, describe_users
from sparklog.wire.handlers.api_versions import api_versions
from sparklog.wire.handlers.call import Call, Handled, Later, Reply
from sparklog.wire.handlers.groups.consumer_groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
)
from sparklog.wire.handlers.groups.group_admin import describe_groups, find_coordinator, list_groups
from sparklog.wire.handlers.groups.group_deletes import delete_groups, offset_delete
from sparklog.wire.handlers.groups.group_members import (
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from sparklog.wire.handlers.groups.group_offsets import offset_fetch
from sparklog.wire.handlers.groups.offset_commit import offset_commit
from sparklog.wire.handlers.groups.txn_offsets import add_offsets_to_txn, txn_offset_commit
from sparklog.wire.handlers.records.delete_records import delete_records
from sparklog.wire.handlers.records.fetch import fetch
from sparklog.wire.handlers.records.leader_epochs import offset_for_leader_epoch
from sparklog.wire.handlers.records.list_offsets import list_offsets
from sparklog.wire.handlers.records.produce import produce
from sparklog.wire.handlers.sasl import sasl_authenticate, sasl_handshake
from sparklog.wire.handlers.transactional.init_producer_id import init_producer_id
from sparklog.wire.handlers.transactional.producers import describe_producers
from sparklog.wire.handlers.transactional.transaction_admin import (
    describe_transactions,
    list_transactions,
    write_txn_markers,
)
from sparklog.wire.handlers.transactional.transactions import add_partitions_to_txn, end_txn
from sparklog.wire.protocol.versions import ApiKey

Handler = Callable[[Call], Handled]

HANDLERS: Final[Mapping[ApiKey, Handler]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.SASL_HANDSHAKE: sasl_handshake,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    ApiKey.END_TXN: end_txn,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_users,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_users,
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}

BEFORE_AUTHENTICATION: Final = frozenset(
    {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
)
"""The APIs that a client may call before it is authenticated."""

__all__ = ["BEFORE_AUTHENTICATION", "HANDLERS", "Call", "Handled", "Handler", "Later", "Reply"]
