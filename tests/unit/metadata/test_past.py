"""Topics as of one commit: what a lookup finds does not know what came later."""

import pytest

from sparklog.errors import UsageError
from sparklog.log_reader import TopicReader
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.past import PastCatalog
from sparklog.model import MAX_TIMESTAMP, TimestampOffset
from tests.maintenance import run
from tests.partitions import TOPIC, Partition, batch


def newest(partition: Partition, version: int) -> TimestampOffset:
    """Return the record with the largest timestamp as of a version."""
    past = PastCatalog(partition.catalog, version=version)
    reader = TopicReader(partition.files, TOPIC, past.topic_image(TOPIC))
    return reader.list_offset(0, MAX_TIMESTAMP)


class TestNewest:
    @pytest.mark.parametrize("merged", [False, True])
    def test_is_the_newest_of_the_past_log(self, merged: bool) -> None:
        """Goal: later records hide none. Method: a newer one is appended, and merged in or not."""
        partition, versions = Partition(), []
        for pieces in ((batch(5, 7),), (batch(6), batch(2)), (batch(9),), (batch(8),)):
            partition.append(*pieces)
            versions.append(partition.catalog.image().version)
        if merged:
            run(merge_segments, partition, seal=False, configs={"retention.ms": "-1"})
            assert len(partition.segments) == 1

        found = [newest(partition, version) for version in versions]

        assert found == [(7, 1), (7, 1), (9, 4), (9, 4)]

    def test_of_a_past_without_records_is_none(self) -> None:
        """Goal: an empty past stays empty. Method: ask as of the version before the first one."""
        partition = Partition().append(batch(5))

        assert newest(partition, partition.catalog.image().version - 1) == (-1, -1)


class TestPoint:
    def test_is_a_version_or_a_time(self) -> None:
        partition = Partition()
        partition.append(batch(1))
        with pytest.raises(UsageError, match="give a version or a time"):
            PastCatalog(partition.catalog)
        with pytest.raises(UsageError, match="versionAsOf or timestampAsOf"):
            PastCatalog(partition.catalog, version=1, timestamp_ms=1)
