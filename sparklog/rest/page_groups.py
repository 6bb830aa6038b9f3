"""The groups on the page at `/`: their members, offsets, lag, and lag over the last hour."""

from typing import Any

from sparklog.admin import ConsumerGroupDescription, PartitionLag
from sparklog.coordinator.lag import total_of
from sparklog.coordinator.lag_state import group_state
from sparklog.rest.lag_picture import picture
from sparklog.rest.security import check
from sparklog.rest.service import Service
from sparklog.tokens import Resource, Scope, Token


def groups_of(service: Service, token: Token) -> dict[str, Any]:
    """Return the list of groups for the page: those that the token may read."""
    if service.topics.image() is None:  # before the first topic
        return {"groups": []}
    admin = service.admin
    listed = [
        one
        for one in admin.list_consumer_groups()
        if token.allows(Scope.READ, one.group_id, Resource.GROUP)
    ]
    lags = admin.consumer_group_lags()  # without a group that was deleted since
    return {
        "groups": [
            {"name": one.group_id, "state": one.state, **_sums(_seen(lags[one.group_id], token))}
            for one in listed
            if one.group_id in lags
        ]
    }


def group_of(service: Service, token: Token, group_id: str) -> dict[str, Any]:
    """Return a group for the page. Raises ApiError (403), GroupIdNotFoundError."""
    check(token, Scope.READ, group_id, Resource.GROUP)
    described: ConsumerGroupDescription
    [described] = service.admin.describe_consumer_groups([group_id])
    lags = _seen(service.admin.consumer_group_lags([group_id])[group_id], token)
    points = service.lags.history.of(group_id, lambda name: token.allows(Scope.READ, name))
    return {
        "described": described,
        "lags": [{**one._asdict(), "age": _age(one)} for one in lags],
        "lag_state": group_state(one.state for one in lags),
        "picture": picture(points),
    }


def _seen(lags: list[PartitionLag], token: Token) -> list[PartitionLag]:
    return [one for one in lags if token.allows(Scope.READ, one.partition.topic)]


def _sums(lags: list[PartitionLag]) -> dict[str, Any]:
    """Return the number of partitions, the total lag, the largest lag in time, and the state."""
    most = max(
        (one for one in lags if one.lag_ms is not None),
        key=lambda one: one.lag_ms or 0,
        default=None,
    )
    return {
        "partitions": len(lags),
        "lag_state": group_state(one.state for one in lags),
        "lag": total_of(one.lag for one in lags),
        "age": None if most is None else _age(most),
    }


def _age(lag: PartitionLag) -> str | None:
    """Return the lag in time as text: 12 s, 3.5 min, 4.2 h, 9.1 d; None if it is unknown."""
    seconds = lag.lag_seconds
    if seconds is None:
        return None
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.0f} s"
