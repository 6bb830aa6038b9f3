"""Groups for which open transactions hold offsets.

They exist, even without a member or a committed offset (OffsetMetadataManager.replay). A shard
learns of them with a request. Take them from an image that is not newer than the shard: a
transaction may end between the two.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.requests import DescribeRequest, Request
from sparklog.metadata.state.image import Image


def held_by_partition(image: Image, num_partitions: int) -> Mapping[int, AbstractSet[str]]:
    """Return the groups by their partitions of __consumer_offsets, as far as these have any."""
    found: dict[int, set[str]] = {}
    for one in image.transactional_ids.held_groups():
        found.setdefault(partition_of(one, num_partitions), set()).add(one)
    return found


def with_held(request: Request, image: Image) -> Request:
    """Return a request for a shard that tells it whether its group is one of them."""
    if isinstance(request, DescribeRequest):
        return DescribeRequest(
            request.group_id, request.group_id in image.transactional_ids.held_groups()
        )
    return request
