"""Topics by name."""

from pathlib import Path

import pytest

from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import LogDirError, UnknownTopicError
from sparklog.manifest.catalog import Catalog, check_partition, manifest_directory, topic_directory
from sparklog.manifest.cluster import DeltaClusterStore
from sparklog.model import TopicDescription
from sparklog.storage.local import LocalFiles
from sparklog.storage.log_dir import create_log_dir

FLIGHTS = TopicDescription("flights", "F" * 22, 4, {}, 1_000)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    files = LocalFiles(str(tmp_path))
    create_log_dir(files, bytes(16))
    cluster = DeltaClusterStore.create(files, ManualClock())
    cluster.commit(lambda state: state.with_topics(FLIGHTS))
    return Catalog(files, ManualClock())


class TestCatalog:
    def test_needs_a_log_dir(self, tmp_path: Path) -> None:
        catalog = Catalog(LocalFiles(str(tmp_path)))

        assert isinstance(catalog.clock, SystemClock)
        with pytest.raises(LogDirError, match="is not a log dir"):
            catalog.topics()

    def test_finds_a_topic(self, catalog: Catalog) -> None:
        assert catalog.topics() == {"flights": FLIGHTS}
        assert catalog.topic("flights") == FLIGHTS
        assert topic_directory(FLIGHTS) == f"flights-{'F' * 22}"
        assert manifest_directory(FLIGHTS) == f"flights-{'F' * 22}/manifest"

    def test_names_the_nearest(self, catalog: Catalog) -> None:
        with pytest.raises(UnknownTopicError, match=r"'flight': .*; did you mean flights\?"):
            catalog.topic("flight")
        with pytest.raises(UnknownTopicError, match=r"not made on first use\)$"):
            catalog.topic("xyz")

    @pytest.mark.parametrize("partition", [-1, 4])
    def test_knows_its_partitions(self, partition: int) -> None:
        check_partition(FLIGHTS, 3)

        with pytest.raises(UnknownTopicError, match=f"no partition {partition}: it has 0 to 3"):
            check_partition(FLIGHTS, partition)

    def test_opens_a_manifest_once(self, catalog: Catalog) -> None:
        assert catalog.store(FLIGHTS) is catalog.store(FLIGHTS)

    def test_lets_go_of_manifests_of_topics_that_are_gone(self, catalog: Catalog) -> None:
        gone = TopicDescription("gone", "G" * 22, 1, {}, 1_000)
        stores = [catalog.store(topic) for topic in (FLIGHTS, gone)]
        catalog.topics()

        assert catalog.store(FLIGHTS) is stores[0]
        assert catalog.store(gone) is not stores[1]
