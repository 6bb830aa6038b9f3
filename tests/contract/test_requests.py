"""How many requests a produce, a commit and a follower need on an object store."""

from collections.abc import Iterator

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.log_writer import WriteOptions
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.logs import append_to, columns
from tests.s3 import S3LogDir, S3Server
from tests.store_proxy import StoreProxy

PARTITIONS = 20
pytestmark = pytest.mark.s3


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[StoreProxy]:
    with StoreProxy(s3_server.endpoint) as found:
        yield found


@pytest.fixture
def log_dir(proxy: StoreProxy, s3_log_dir: S3LogDir) -> S3LogDir:
    options = s3_log_dir.options | {"AWS_ENDPOINT_URL": proxy.endpoint}
    AdminClient(s3_log_dir.uri, options).create_topics([NewTopic("t", PARTITIONS)])
    return S3LogDir(s3_log_dir.uri, options)


def opened(log_dir: S3LogDir) -> Catalog:
    """The log dir as a process has it that has opened topic `t` already."""
    catalog = Catalog(open_files(log_dir.uri, log_dir.options), ManualClock(10**12))
    catalog.topic_image(catalog.topic("t"))
    return catalog


def produce(catalog: Catalog) -> None:
    """One task's produce to all partitions."""
    append_to(catalog, range(PARTITIONS), columns(range(PARTITIONS)), options=WriteOptions())


def asked(proxy: StoreProxy) -> list[tuple[str, str]]:
    """Method and kind of file of all requests so far, which are forgotten."""
    kinds = ("_delta_log", "__shared")
    found = [
        (one.method, next((kind for kind in kinds if kind in one.path), one.path))
        for one in proxy.requests
    ]
    proxy.requests.clear()
    return found


class TestRequests:
    def test_a_produce_puts_its_data_and_its_entry(
        self, log_dir: S3LogDir, proxy: StoreProxy
    ) -> None:
        """Looks for new entries come before; the first commit of a process also probes."""
        catalog = opened(log_dir)
        produce(catalog)
        asked(proxy)
        produce(catalog)

        found = asked(proxy)
        assert [one for one in found if one[0] == "PUT"] == [
            ("PUT", "__shared"),
            ("PUT", "_delta_log"),
        ]
        assert {one for one in found if one[0] != "PUT"} == {("GET", "_delta_log")}

    @pytest.mark.parametrize("count", [0, 1, 5])
    def test_new_entries_cost_one_each_and_one_for_the_end(
        self, log_dir: S3LogDir, proxy: StoreProxy, count: int
    ) -> None:
        writer, reader = opened(log_dir), opened(log_dir)
        for _ in range(count):
            produce(writer)
        asked(proxy)
        reader.log.image()

        assert asked(proxy) == [("GET", "_delta_log")] * (count + 1)
