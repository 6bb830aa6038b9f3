"""Consumer groups as in Confluent's v3: members, assignments, lag. There are only GET routes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from sparklog.admin import (
    AdminClient,
    ConsumerGroupDescription,
    MemberDescription,
    PartitionLag,
)
from sparklog.coordinator.lag_state import group_state
from sparklog.errors import GroupIdNotFoundError
from sparklog.model import TopicPartition
from sparklog.rest.deps import service_of, token_of
from sparklog.rest.errors import CONSUMER_NOT_FOUND, PARTITION_NOT_FOUND, ApiError
from sparklog.rest.links import Links, in_path, links_to
from sparklog.rest.paging import PageAsked
from sparklog.rest.parameters import NAME_MAX, ClusterId, PartitionNumber, TopicName
from sparklog.rest.payloads.media_types import PLAIN_JSON
from sparklog.rest.schemas import models3
from sparklog.rest.schemas import models_groups as models
from sparklog.rest.security import check
from sparklog.tokens import Resource, Scope

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["v3"])


class _AnyText(PathConvertor):
    """A part of a path with any characters; a client may also send "/" as %2F.

    Its length has a limit: two such parts of any length can be cut in very many ways, and each
    request is matched before its token is checked.
    """

    regex = rf"(?s:.{{1,{NAME_MAX}}})"


register_url_convertor("any", _AnyText())
GroupId = Annotated[str, Path(description="The consumer group", min_length=1, max_length=NAME_MAX)]
ConsumerId = Annotated[str, Path(description="The member's id", min_length=1, max_length=NAME_MAX)]
Answer = TypeVar("Answer")


class _Group:
    """Makes the answers about a group that a request may read."""

    def __init__(self, links: Links, group_id: str) -> None:
        self.links = links
        self.group_id = group_id
        self.path = f"/consumer-groups/{in_path(group_id)}"

    def data(self, found: ConsumerGroupDescription) -> models.GroupData:
        """Return the group."""
        return models.GroupData(
            metadata=self.links.at(self.path, f"/consumer-group={self.group_id}"),
            cluster_id=self.links.cluster_id,
            consumer_group_id=self.group_id,
            is_simple=found.is_simple,
            partition_assignor=found.partition_assignor,
            state=found.state.upper(),
            type=found.type.upper(),
            consumers=self.links.to(f"{self.path}/consumers"),
            lag_summary=self.links.to(f"{self.path}/lag-summary"),
        )

    def consumer(self, member: MemberDescription) -> models.ConsumerData:
        """Return a member of the group."""
        path = f"{self.path}/consumers/{in_path(member.member_id)}"
        name = f"/consumer-group={self.group_id}/consumer={member.member_id}"
        return models.ConsumerData(
            metadata=self.links.at(path, name),
            cluster_id=self.links.cluster_id,
            consumer_group_id=self.group_id,
            consumer_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            assignments=self.links.to(f"{path}/assignments"),
        )

    def assignment(self, member: MemberDescription, place: TopicPartition) -> models.AssignmentData:
        """Return a partition that a member of the group reads."""
        below = f"{place.topic}/partitions/{place.partition}"
        consumer = f"/consumers/{in_path(member.member_id)}"
        return models.AssignmentData(
            metadata=self.links.at(
                f"{self.path}{consumer}/assignments/{below}",
                f"/consumer-group={self.group_id}/consumer={member.member_id}"
                f"/assignment={place.topic}/partition={place.partition}",
            ),
            cluster_id=self.links.cluster_id,
            consumer_group_id=self.group_id,
            consumer_id=member.member_id,
            topic_name=place.topic,
            partition_id=place.partition,
            partition=self.links.to(f"/topics/{below}"),
            lag=self.links.to(f"{self.path}/lags/{below}"),
        )

    def lag(self, lag: PartitionLag) -> models.LagData:
        """Return the group's lag in a partition; `lag.lag` is not None."""
        place = lag.partition
        name = f"/consumer-group={self.group_id}/lag={place.topic}/partition={place.partition}"
        return models.LagData(
            metadata=self.links.at(
                f"{self.path}/lags/{place.topic}/partitions/{place.partition}", name
            ),
            cluster_id=self.links.cluster_id,
            consumer_group_id=self.group_id,
            topic_name=place.topic,
            partition_id=place.partition,
            consumer_id=lag.member_id or "",
            instance_id=lag.group_instance_id,
            client_id=lag.client_id or "",
            current_offset=lag.current_offset or 0,
            log_end_offset=lag.log_end_offset or 0,
            lag=lag.lag or 0,
            lag_seconds=lag.lag_seconds,
            lag_state=lag.state,
        )

    def lags(self, lags: list[PartitionLag]) -> str:
        """Return the JSON text of the group's lags in all partitions."""
        metadata: models3.ListMetadata = self.links.list_at(f"{self.path}/lags")
        found = models.LagList(metadata=metadata, data=[self.lag(one) for one in lags])
        return found.model_dump_json()

    def summary(self, lags: list[PartitionLag]) -> models.LagSummaryData:
        """Return the group's lag in all partitions; `lags` is not empty."""
        most = max(lags, key=lambda one: one.lag or 0)
        place, times = most.partition, [one.lag_seconds for one in lags]
        return models.LagSummaryData(
            metadata=self.links.at(
                f"{self.path}/lag-summary", f"/consumer-group={self.group_id}/lag-summary"
            ),
            cluster_id=self.links.cluster_id,
            consumer_group_id=self.group_id,
            max_lag_consumer_id=most.member_id or "",
            max_lag_instance_id=most.group_instance_id,
            max_lag_client_id=most.client_id or "",
            max_lag_topic_name=place.topic,
            max_lag_partition_id=place.partition,
            max_lag=most.lag or 0,
            total_lag=sum(one.lag or 0 for one in lags),
            lag_state=group_state(one.state for one in lags),
            max_lag_seconds=max((one for one in times if one is not None), default=None),
            max_lag_consumer=self.links.to(
                f"{self.path}/consumers/{in_path(most.member_id or '')}"
            ),
            max_lag_partition=self.links.to(f"/topics/{place.topic}/partitions/{place.partition}"),
        )


async def _group(request: Request, cluster_id: str, group_id: str) -> _Group:
    """Return a group if the client may read it. Raises ApiError (401, 403, 404)."""
    check(token_of(request), Scope.READ, group_id, Resource.GROUP)
    return _Group(await links_to(request, cluster_id), group_id)


async def _described(request: Request, group_id: str) -> ConsumerGroupDescription:
    service = service_of(request)
    [found] = await service.bulk(lambda: service.admin.describe_consumer_groups([group_id]))
    return found


def _existing(admin: AdminClient, names: Sequence[str]) -> list[ConsumerGroupDescription]:
    """Return groups, without those that were deleted since they were listed."""
    try:
        return admin.describe_consumer_groups(names)
    except GroupIdNotFoundError:
        found: list[ConsumerGroupDescription] = []
        for name in names:
            with suppress(GroupIdNotFoundError):
                found += admin.describe_consumer_groups([name])
        return found


async def _member(request: Request, group_id: str, consumer_id: str) -> MemberDescription:
    for one in (await _described(request, group_id)).members:
        if one.member_id == consumer_id:
            return one
    raise ApiError(CONSUMER_NOT_FOUND, f"group {group_id!r} has no consumer {consumer_id!r}")


def _seen(request: Request, member: MemberDescription) -> list[TopicPartition]:
    """Return a member's partitions of the topics that the token may read."""
    token = token_of(request)
    return [one for one in member.partitions if token.allows(Scope.READ, one.topic)]


async def _of_lags(
    request: Request, group_id: str, answer: Callable[[list[PartitionLag]], Answer]
) -> Answer:
    """Return the answer made of the known lags of a group in the topics that the token may read.

    There may be ten thousand lags: the answer, too, is made on a thread.
    """
    token, service = token_of(request), service_of(request)

    def asked() -> Answer:
        found = service.admin.consumer_group_lags([group_id])[group_id]
        known = [one for one in found if one.lag is not None]
        return answer([one for one in known if token.allows(Scope.READ, one.partition.topic)])

    return await service.bulk(asked)


@router.get("")
async def read_groups(request: Request, cluster_id: ClusterId, page: PageAsked) -> models.GroupList:
    """The consumer groups that the token may read."""
    token, service = token_of(request), service_of(request)
    links = await links_to(request, cluster_id)

    def described() -> tuple[list[ConsumerGroupDescription], str | None]:
        listed = [one.group_id for one in service.admin.list_consumer_groups()]
        seen = [one for one in listed if token.allows(Scope.READ, one, Resource.GROUP)]
        names, following = page.of(seen, str, str)
        return _existing(service.admin, names), following

    found, following = await service.bulk(described)
    data = [_Group(links, one.group_id).data(one) for one in found]
    return models.GroupList(metadata=links.list_at("/consumer-groups", following), data=data)


@router.get("/{group_id:any}/consumers")
async def read_consumers(
    request: Request, cluster_id: ClusterId, group_id: GroupId
) -> models.ConsumerList:
    """The members of a group, as of its last rebalance."""
    group = await _group(request, cluster_id, group_id)
    data = [group.consumer(one) for one in (await _described(request, group_id)).members]
    metadata: models3.ListMetadata = group.links.list_at(f"{group.path}/consumers")
    return models.ConsumerList(metadata=metadata, data=data)


@router.get("/{group_id:any}/consumers/{consumer_id:any}/assignments")
async def read_assignments(
    request: Request, cluster_id: ClusterId, group_id: GroupId, consumer_id: ConsumerId
) -> models.AssignmentList:
    """The partitions that a member reads."""
    group = await _group(request, cluster_id, group_id)
    member = await _member(request, group_id, consumer_id)
    data = [group.assignment(member, place) for place in _seen(request, member)]
    path = f"{group.path}/consumers/{in_path(consumer_id)}/assignments"
    return models.AssignmentList(metadata=group.links.list_at(path), data=data)


@router.get(
    "/{group_id:any}/consumers/{consumer_id:any}/assignments/{topic}/partitions/{partition}"
)
async def read_assignment(
    request: Request,
    cluster_id: ClusterId,
    group_id: GroupId,
    consumer_id: ConsumerId,
    topic: TopicName,
    partition: PartitionNumber,
) -> models.AssignmentData:
    """A partition that a member reads."""
    group = await _group(request, cluster_id, group_id)
    member = await _member(request, group_id, consumer_id)
    place = TopicPartition(topic, partition)
    if place not in _seen(request, member):
        raise ApiError(
            PARTITION_NOT_FOUND, f"consumer {consumer_id!r} does not read {topic}-{partition}"
        )
    return group.assignment(member, place)


@router.get("/{group_id:any}/consumers/{consumer_id:any}")
async def read_consumer(
    request: Request, cluster_id: ClusterId, group_id: GroupId, consumer_id: ConsumerId
) -> models.ConsumerData:
    """A member of a group."""
    group = await _group(request, cluster_id, group_id)
    return group.consumer(await _member(request, group_id, consumer_id))


@router.get("/{group_id:any}/lags", response_model=models.LagList)
async def read_lags(request: Request, cluster_id: ClusterId, group_id: GroupId) -> Response:
    """The lag of a group in each partition that it has committed."""
    group = await _group(request, cluster_id, group_id)
    answer = await _of_lags(request, group_id, group.lags)
    return Response(answer, media_type=PLAIN_JSON)


@router.get("/{group_id:any}/lags/{topic}/partitions/{partition}")
async def read_lag(
    request: Request,
    cluster_id: ClusterId,
    group_id: GroupId,
    topic: TopicName,
    partition: PartitionNumber,
) -> models.LagData:
    """The lag of a group in a partition."""
    group = await _group(request, cluster_id, group_id)

    def found(lags: list[PartitionLag]) -> models.LagData | None:
        of_place = (one for one in lags if one.partition == (topic, partition))
        return next(map(group.lag, of_place), None)

    answer = await _of_lags(request, group_id, found)
    if answer is None:
        raise ApiError(
            PARTITION_NOT_FOUND, f"group {group_id!r} has committed nothing of {topic}-{partition}"
        )
    return answer


@router.get("/{group_id:any}/lag-summary")
async def read_lag_summary(
    request: Request, cluster_id: ClusterId, group_id: GroupId
) -> models.LagSummaryData:
    """The lag of a group: the total, and the largest one with its partition."""
    group = await _group(request, cluster_id, group_id)
    answer = await _of_lags(request, group_id, lambda lags: group.summary(lags) if lags else None)
    if answer is None:
        raise ApiError(PARTITION_NOT_FOUND, f"group {group_id!r} has committed nothing")
    return answer


@router.get("/{group_id:any}")
async def read_group(
    request: Request, cluster_id: ClusterId, group_id: GroupId
) -> models.GroupData:
    """A consumer group."""
    group = await _group(request, cluster_id, group_id)
    return group.data(await _described(request, group_id))
