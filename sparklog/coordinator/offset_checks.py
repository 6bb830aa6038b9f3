"""Checks of offsets before a commit that need nothing but the topics, not the group."""

from collections.abc import Mapping
from typing import Final

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

    Raises InvalidGroupIdError for an empty group id, UnknownTopicError for a topic or partition
    that does not exist, OffsetOutOfRangeError for an offset below 0 or above OFFSET_MAX, UsageError
    for metadata of more than METADATA_MAX characters.
    """
    if not group_id:
        raise InvalidGroupIdError("the group id is empty")
    for place, one in offsets.items():
        check_partition(catalog.topic(place.topic), place.partition)
        if not 0 <= one.offset <= OFFSET_MAX:
            raise OffsetOutOfRangeError(
                f"{place}: offset {one.offset}; allowed are 0 to {OFFSET_MAX}"
            )
        if len(one.metadata) > METADATA_MAX:
            raise UsageError(
                f"{place}: metadata of {len(one.metadata)} characters; allowed: {METADATA_MAX}"
            )
