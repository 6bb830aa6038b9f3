"""Checks of offsets before a commit that need nothing but the topics, not the group."""

from collections.abc import Mapping
from typing import Final

from sparklog.coordinator.placement import ID_MAX
from sparklog.coordinator.requests import CommittedOffset
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import InvalidGroupIdError, OffsetOutOfRangeError, UsageError
from sparklog.log.names import OFFSET_MAX
from sparklog.metadata.catalog import Catalog, check_partition
from sparklog.model import TopicPartition

METADATA_MAX: Final = GroupLimits().offset_metadata_max_bytes


def check_offsets(
    catalog: Catalog, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Refuse offsets that no group can have.

    Raises InvalidGroupIdError for a group id that is empty or that no record can have,
    UnknownTopicError for a topic or partition that does not exist, OffsetOutOfRangeError for an
    offset below 0 or above OFFSET_MAX, UsageError for metadata of more than METADATA_MAX
    characters.
    """
    _check_group_id(group_id)
    topics = catalog.named(place.topic for place in offsets)
    for topic, (place, one) in zip(topics, offsets.items(), strict=True):
        check_partition(topic, place.partition)
        if not 0 <= one.offset <= OFFSET_MAX:
            raise OffsetOutOfRangeError(
                f"{place}: offset {one.offset}; allowed are 0 to {OFFSET_MAX}"
            )
        if len(one.metadata) > METADATA_MAX:
            raise UsageError(
                f"{place}: metadata of {len(one.metadata)} characters; allowed: {METADATA_MAX}"
            )


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupIdError("the group id is empty")
    try:
        size = len(group_id.encode())
    except UnicodeEncodeError:
        raise InvalidGroupIdError(f"group id {group_id!r} is not UTF-8") from None
    if size > ID_MAX:
        raise InvalidGroupIdError(f"a group id of {size} bytes: allowed are {ID_MAX}")
