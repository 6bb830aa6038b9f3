"""The answer to a request that has failed as a whole (Kafka's AbstractRequest.getErrorResponse).

A handler answers for what is wrong in a request. It raises what keeps it from an answer: the
storage is away or full, the metadata is damaged. Then each part of the request has the same code
(`code_of`). After it consumers, producers and groups ask again, as of a broker; an administrator
gets the error.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from sparklog.errors import ErrorCode, InvalidRequestError, SaslAuthenticationError, SparklogError
from sparklog.log.names import INTERNAL_TOPICS
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.protocol.writing import shortened

Fields = Mapping[str, Any]
Shape = Callable[[Call, Fields], Fields | None]
"""Returns the fields of an answer; the given ones, of the error, are in each of its parts.

Returns None if no answer can tell the error."""
NO_OFFSET: Final = -1
NO_PRODUCER: Final = -1
log: Final = logging.getLogger("sparklog.gateway")

_CODES: Final = {
    **dict.fromkeys(
        (
            ApiKey.OFFSET_COMMIT,
            ApiKey.JOIN_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.LIST_GROUPS,
            ApiKey.DELETE_GROUPS,
            ApiKey.OFFSET_DELETE,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
            ApiKey.DESCRIBE_TRANSACTIONS,
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ),
    # After COORDINATOR_NOT_AVAILABLE consumers before 3.9 give up (GroupCoordinatorService).
    ApiKey.OFFSET_FETCH: ErrorCode.NOT_COORDINATOR,
    # Likewise old producers without a transactional id, and tools that list transactions.
    ApiKey.INIT_PRODUCER_ID: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ApiKey.LIST_TRANSACTIONS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ApiKey.METADATA: ErrorCode.LEADER_NOT_AVAILABLE,
    # Kafka Streams ends after another code (InternalTopicManager.getTopicPartitionInfo).
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ErrorCode.LEADER_NOT_AVAILABLE,
    # Java's AbortTransactionHandler gives up after KAFKA_STORAGE_ERROR.
    ApiKey.WRITE_TXN_MARKERS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def code_of(api_key: ApiKey, error: SparklogError) -> ErrorCode:
    """Return the code after which the clients of an API ask again; without one the error's own."""
    return _CODES.get(api_key, error.code)


def failed(call: Call, error: SparklogError) -> Reply | Awaitable[Reply]:
    """Return the answer to a request that an error has ended.

    Raises the error, perhaps when the answer is awaited, if the client is at fault, or if there is
    no such answer: one for all topics would say that there are none.
    """
    api_key = call.header.api_key
    shape = _SHAPES.get(api_key)
    if shape is None or isinstance(error, InvalidRequestError | SaslAuthenticationError):
        raise error
    # A message in each of a million parts would have no bound.
    message = None if call.is_long else shortened(error.message)
    told = {"error_code": code_of(api_key, error), "error_message": message}

    def answered() -> Reply:
        fields = shape(call, told)
        if fields is None:
            raise error
        tell(call, error)
        return call.answer(fields)

    return call.gateway.at_length(answered) if call.is_long else answered()


def tell(call: Call, error: SparklogError) -> None:
    """Log why a request, or a part of it, has failed; seldom for an API and a kind of error."""
    api_key, peer = call.header.api_key, call.session.peer
    trouble = (api_key, type(error))
    call.gateway.seldom.warn(trouble, log, "%s: %s failed: %s", peer, api_key.name, error)


# -------------------------------------------------------------------------------------- the shapes


def _alone(_: Call, error: Fields) -> Fields:
    """The request has one error."""
    return error


def _no_producer(_: Call, error: Fields) -> Fields:
    return {"producer_id": NO_PRODUCER, "producer_epoch": NO_PRODUCER, **error}


def _each(answered: str, asked: str, *names: str) -> Shape:
    """Each item of a list has the error; it has the same `names` in the request."""

    def shape(call: Call, error: Fields) -> Fields:
        items = getattr(call.parsed(), asked)
        return {answered: [{**{name: _in(one, name) for name in names}, **error} for one in items]}

    return shape


def _in(item: Any, name: str) -> Any:
    """Return a field of an item; the item itself if it is a name or a number."""
    return item if isinstance(item, str | int) else getattr(item, name)


def _parts(
    numbers: str = "partitions", name: str = "name", index: str = "partition_index"
) -> Shape:
    """Each partition has the error; the fields are those of the request."""

    def shape(call: Call, error: Fields) -> Fields:
        return {"topics": _topics(call.parsed().topics, error, numbers, name, index)}

    return shape


def _topics(
    asked: Any, error: Fields, numbers: str, name: str = "name", index: str = "partition_index"
) -> list[Fields]:
    return [
        {
            name: getattr(topic, name),
            "partitions": [{index: _in(one, index), **error} for one in getattr(topic, numbers)],
        }
        for topic in asked or ()
    ]


def _metadata(call: Call, error: Fields) -> Fields | None:
    topics = call.parsed().topics
    if topics is None or (call.version == 0 and not topics):
        return None
    return {
        "brokers": [one._asdict() for one in call.instances],
        "cluster_id": call.gateway.cluster_id,
        "controller_id": call.instances[0].node_id,
        "topics": [
            {
                "name": one.name or "",  # as in Kafka: before version 12 it is not nullable
                "topic_id": getattr(one, "topic_id", None),
                "is_internal": one.name in INTERNAL_TOPICS,
                **error,
            }
            for one in dict.fromkeys(topics)
        ],
    }


def _topic_partitions(call: Call, error: Fields) -> Fields | None:
    topics = call.parsed().topics
    return {"topics": [{"name": one.name, **error} for one in topics]} if topics else None


def _offsets(call: Call, error: Fields) -> Fields:
    request = call.parsed()
    if hasattr(request, "groups"):
        return {"groups": [{"group_id": one.group_id, **error} for one in request.groups]}
    of_part = {"committed_offset": NO_OFFSET, **error}  # version 1 has no other place for the code
    return {"topics": _topics(request.topics, of_part, "partition_indexes"), **error}


def _deletions(call: Call, error: Fields) -> Fields:
    request = call.parsed()
    asked = request.topics if hasattr(request, "topics") else request.topic_names
    told = [{"name": _in(one, "name"), "topic_id": getattr(one, "topic_id", None)} for one in asked]
    return {"responses": [{**one, **error} for one in told]}


def _added(call: Call, error: Fields) -> Fields:
    code = {"partition_error_code": error["error_code"]}
    topics = [
        {
            "name": topic.name,
            "results_by_partition": [{"partition_index": one, **code} for one in topic.partitions],
        }
        for topic in call.parsed().v3_and_below_topics
    ]
    return {"results_by_topic_v3_and_below": topics}


def _markers(call: Call, error: Fields) -> Fields:
    markers = [
        {
            "producer_id": one.producer_id,
            "topics": _topics(one.topics, error, "partition_indexes"),
        }
        for one in call.parsed().markers
    ]
    return {"markers": markers}


def _replicas(call: Call, error: Fields) -> Fields:
    topics = [topic for one in call.parsed().dirs for topic in one.topics]
    found = _topics(topics, error, "partitions")
    return {"results": [{"topic_name": one["name"], **one} for one in found]}


def _elections(call: Call, error: Fields) -> Fields | None:
    if call.version == 0 and call.parsed().topic_partitions is None:
        return None  # version 0 has an error only for each partition
    topics = [
        {
            "topic": topic.topic,
            "partition_result": [{"partition_id": one, **error} for one in topic.partitions],
        }
        for topic in call.parsed().topic_partitions or ()
    ]
    return {"replica_election_results": topics, **error}


def _log_dir(call: Call, error: Fields) -> Fields:
    """As of a broker whose log dir is offline."""
    return {"results": [{"log_dir": call.gateway.catalog.files.uri, **error}]}


def _users(call: Call, error: Fields) -> Fields:
    request = call.parsed()
    names = dict.fromkeys(one.name for one in (*request.upsertions, *request.deletions))
    return {"results": [{"user": name, **error} for name in names]}


def _transactions(call: Call, error: Fields) -> Fields:
    ids = call.parsed().transactional_ids
    told = [{"transactional_id": one, "transaction_start_time": 0, **error} for one in ids]
    return {"transaction_states": told}


_SHAPES: Final[Mapping[ApiKey, Shape]] = {
    ApiKey.LIST_OFFSETS: _parts(),
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _parts(),
    ApiKey.OFFSET_FETCH: _offsets,
    ApiKey.LIST_GROUPS: _alone,
    ApiKey.DELETE_TOPICS: _deletions,
    ApiKey.INIT_PRODUCER_ID: _no_producer,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _parts("partitions", "topic", "partition"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _added,
    ApiKey.ADD_OFFSETS_TO_TXN: _alone,
    ApiKey.END_TXN: _no_producer,
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.TXN_OFFSET_COMMIT: _parts(),
    ApiKey.DESCRIBE_CONFIGS: _each("results", "resources", "resource_type", "resource_name"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _replicas,
    ApiKey.DESCRIBE_LOG_DIRS: _log_dir,
    ApiKey.CREATE_PARTITIONS: _each("results", "topics", "name"),
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alone,
    ApiKey.OFFSET_DELETE: _alone,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _alone,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _users,
    ApiKey.DESCRIBE_QUORUM: _alone,
    ApiKey.DESCRIBE_TRANSACTIONS: _transactions,
    ApiKey.LIST_TRANSACTIONS: _alone,
    ApiKey.DESCRIBE_PRODUCERS: _parts("partition_indexes"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _alone,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _each("groups", "group_ids", "group_id"),
    ApiKey.LIST_CONFIG_RESOURCES: _alone,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _topic_partitions,
}
"""The other APIs answer for their errors themselves, or close the connection.

A produce of a topic that this instance does not know closes it: the producer's next batches must
not land without this one."""
