"""Checks of offsets to be committed that need no look at the group."""

from collections.abc import Mapping
from typing import Final

from sparklog.coordinator.requests import CommittedOffset
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import InvalidGroupIdError, OffsetOutOfRangeError, UsageError
from sparklog.metadata.catalog import Catalog, check_partition
from sparklog.model import TopicPartition

METADATA_MAX: Final = GroupLimits().offset_metadata_max_bytes


def check_offsets(
    catalog: Catalog, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Raise an error for offsets that no group can have.

    InvalidGroupIdError for an empty name, UnknownTopicError, OffsetOutOfRangeError for a negative
    offset, UsageError for metadata that is too long.
    """
    if not group_id:
        raise InvalidGroupIdError("a group has a name that is not empty")
    for place, one in offsets.items():
        check_partition(catalog.topic(place.topic), place.partition)
        if one.offset < 0:
            raise OffsetOutOfRangeError(f"{place}: offset {one.offset} is negative")
        if len(one.metadata) > METADATA_MAX:
            raise UsageError(
                f"{place}: metadata of {len(one.metadata)} characters; allowed: {METADATA_MAX}"
            )
