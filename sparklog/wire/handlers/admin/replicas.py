"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.

Each partition has one replica, at the instance that leads it, and one at each instance with a rack
(`Leaders.replicas`); the storage replicates the files. They follow from the topic's id, the
partition's number and the instances that are alive (`instances`). So there is nothing to elect, and
no request moves a partition. The answers are those of Kafka's controller for a partition that is
where it should be (ReplicationControlManager).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sparklog.errors import ErrorCode, SparklogError
from sparklog.model import TopicDescription
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.outcomes import check_brokers, error_fields, refused
from sparklog.wire.instances import in_racks_of, leaders_of, node_ids_of
from sparklog.wire.security.authorization import DENIED

PREFERRED: Final = 0
UNCLEAN: Final = 1
_Topics = Mapping[str, TopicDescription]


async def elect_leaders(call: Call) -> Reply:
    """Return the answer: ELECTION_NOT_NEEDED for each partition.

    If the request names no partition, the answer has all topics without partitions: Kafka leaves
    out partitions that need no election.
    """
    request = await call.request()
    asked = request.topic_partitions
    kind = getattr(request, "election_type", PREFERRED)
    outcome: SparklogError | None = None
    topics = (await call.gateway.image()).names
    if not call.allows(Scope.ADMIN, resource=Resource.CLUSTER):
        outcome = _denied()
    elif kind not in (PREFERRED, UNCLEAN):
        outcome = refused(
            ErrorCode.INVALID_REQUEST,
            f"election type {kind}: allowed are {PREFERRED} (preferred) and {UNCLEAN} (unclean)",
        )
    elif asked is None:
        found = [{"topic": name, "partition_result": ()} for name in topics]
        return call.answer({"replica_election_results": found})

    def elected(name: str, number: int) -> None:
        _topic_of(topics, name, number)
        raise refused(ErrorCode.ELECTION_NOT_NEEDED, f"{name}-{number} is led by its only replica")

    def answered() -> Reply:
        results = [
            {
                "topic": one.topic,
                "partition_result": [
                    {"partition_id": number, **_outcome(outcome, elected, one.topic, number)}
                    for number in one.partitions
                ],
            }
            for one in asked or ()
        ]
        return call.answer({**error_fields(outcome), "replica_election_results": results})

    return await call.step(answered)


async def alter_partition_reassignments(call: Call) -> Reply:
    """Return the answer: success for the replicas that a partition has, an error for others.

    Null replicas cancel a reassignment: there is never one (NO_REASSIGNMENT_IN_PROGRESS).
    """
    request = await call.request()
    may_change_count = getattr(request, "allow_replication_factor_change", True)
    outcome = None if call.allows(Scope.ADMIN, resource=Resource.CLUSTER) else _denied()
    topics = (await call.gateway.image()).names

    def reassigned(name: str, number: int, replicas: Sequence[int] | None) -> None:
        topic = _topic_of(topics, name, number)
        if replicas is None:
            raise refused(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{name}-{number} is not being reassigned"
            )
        check_brokers(call, replicas)
        instances = call.instances
        leaders = leaders_of(topic.topic_id, node_ids_of(instances), in_racks_of(instances))
        present = leaders.replicas(number)
        if sorted(replicas) != sorted(present):
            code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
            if not may_change_count and len(replicas) != len(present):
                code = ErrorCode.INVALID_REPLICATION_FACTOR
            raise refused(
                code,
                f"{name}-{number}: replicas {[*replicas]}: allowed is {[*present]}, the instance "
                f"that leads the partition, and those in racks; the storage replicates",
            )

    def told(name: str, part: Any) -> Mapping[str, Any]:
        number = part.partition_index
        found = _outcome(outcome, reassigned, name, number, part.replicas)
        return {"partition_index": number, **found}

    def answered() -> Reply:
        responses = [
            {"name": one.name, "partitions": [told(one.name, part) for part in one.partitions]}
            for one in request.topics
        ]
        fields = {"allow_replication_factor_change": may_change_count, "responses": responses}
        return call.answer({**error_fields(outcome), **fields})

    return await call.step(answered)


async def list_partition_reassignments(call: Call) -> Reply:
    """Return the answer: there are none."""
    await call.request()
    is_allowed = call.allows(Scope.READ, resource=Resource.CLUSTER)
    return call.answer(error_fields(None if is_allowed else _denied()))


def _denied() -> SparklogError:
    return refused(DENIED[Resource.CLUSTER], "the client may not administer the cluster")


def _topic_of(topics: _Topics, name: str, number: int) -> TopicDescription:
    """Return the topic of a partition that exists, else raise UsageError."""
    topic = topics.get(name)
    if topic is None or not 0 <= number < topic.num_partitions:
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"unknown partition {name}-{number}")
    return topic


def _outcome(
    outcome: SparklogError | None, step: Callable[..., None], *arguments: object
) -> Mapping[str, Any]:
    """Return the error fields of a step, or those of `outcome` if it refuses the whole request."""
    if outcome is None:
        try:
            step(*arguments)
        except SparklogError as error:
            return error_fields(error)
    return error_fields(outcome)
