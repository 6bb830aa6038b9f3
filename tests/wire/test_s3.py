"""A gateway over an object store: its requests, and a store that is away."""

from collections.abc import Iterator

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.model import TopicDescription
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.sending import HELD_BYTES_MAX
from tests.client_batches import client_batch
from tests.s3 import S3LogDir, S3Server, s3_log_dir, s3_server
from tests.store_proxy import StoreProxy
from tests.wire.fetching import MANY, NEWEST, Part, fetch_request, fetched, partitions_of, values
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.test_fetch_waiting import until_it_waits
from tests.wire.test_produce import produce_request

__all__ = ["s3_log_dir", "s3_server"]

pytestmark = pytest.mark.s3

PARTITIONS = 8


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[StoreProxy]:
    with StoreProxy(s3_server.endpoint) as found:
        yield found


@pytest.fixture
def running(
    s3_log_dir: S3LogDir, proxy: StoreProxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningGateway]:
    """A gateway whose log dir is behind the proxy."""
    options = s3_log_dir.options | {"AWS_ENDPOINT_URL": proxy.endpoint}
    for name, value in options.items():
        monkeypatch.setenv(name, value)
    with gateway(s3_log_dir.uri) as found:
        yield found


@pytest.fixture
def writer(running: RunningGateway) -> Iterator[Client]:
    """A client of another instance, which has the bytes in memory that it writes."""
    with gateway(running.server.gateway.settings.log_dir) as other, Client(other.port) as found:
        yield found


@pytest.fixture
def topic(running: RunningGateway) -> TopicDescription:
    admin = AdminClient(running.server.gateway.settings.log_dir)
    return admin.create_topics([NewTopic("t", PARTITIONS)])[0]


def produce(client: Client, *texts: str) -> None:
    """Each text is one request, and one commit, to all partitions."""
    for text in texts:
        parts = [(number, client_batch(text)) for number in range(PARTITIONS)]
        client.ask(produce_request(9, "t", *parts))


def gets_of_segments(proxy: StoreProxy) -> int:
    """How many there were so far; they are forgotten."""
    count = sum(one.method == "GET" and "__shared" in one.path for one in proxy.requests)
    proxy.requests.clear()
    return count


class TestFetch:
    def test_is_one_batch_while_clients_of_its_address_hold_much_memory(
        self, running: RunningGateway, client: Client, topic: TopicDescription
    ) -> None:
        """Bytes of an object store are in memory until a client takes them, and it may be slow."""
        produce(client, "a", "b", "c")
        sent, patient = running.server.gateway.sent, {"min_bytes": 1_000_000, "wait_ms": 60_000}
        sent.hold("127.0.0.1", HELD_BYTES_MAX // 2)
        assert values(fetched(client, topic, **patient)[0]) == ["a"]
        sent.hold("127.0.0.1", -(HELD_BYTES_MAX // 2))
        sent.hold("127.0.0.2", HELD_BYTES_MAX // 2)
        assert values(fetched(client, topic)[0]) == ["a", "b", "c"]

    def test_is_a_request_for_each_file(
        self, client: Client, writer: Client, topic: TopicDescription, proxy: StoreProxy
    ) -> None:
        """A file has the slices of all partitions, back to back."""
        produce(writer, "a", "b", "c")
        gets_of_segments(proxy)
        parts = [Part(number) for number in range(PARTITIONS)]
        found = fetched(client, topic, *parts)

        assert [values(one) for one in found] == [["a", "b", "c"]] * PARTITIONS
        assert gets_of_segments(proxy) == 3

    def test_that_waits_for_many_bytes_reads_them_once(
        self,
        running: RunningGateway,
        client: Client,
        writer: Client,
        topic: TopicDescription,
        proxy: StoreProxy,
    ) -> None:
        enough = 3 * len(client_batch("a"))
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY, min_bytes=enough))
        until_it_waits(running)
        produce(writer, "a", "b", "c")
        [found] = partitions_of(client.receive(ApiKey.FETCH, NEWEST))

        assert values(found) == ["a", "b", "c"]
        assert gets_of_segments(proxy) == 3

    @pytest.mark.parametrize(("is_own", "requests"), [(True, 0), (False, 1)])
    def test_of_many_consumers_that_wait_is_one_request_and_none_for_own_bytes(
        self,
        running: RunningGateway,
        client: Client,
        writer: Client,
        topic: TopicDescription,
        proxy: StoreProxy,
        is_own: bool,
        requests: int,
    ) -> None:
        consumers = [Client(running.port) for _ in range(6)]
        for one in consumers:
            one.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY))
        until_it_waits(running, len(consumers))
        produce(client if is_own else writer, "a")
        for one in consumers:
            [found] = partitions_of(one.receive(ApiKey.FETCH, NEWEST))
            assert values(found) == ["a"]
            one.socket.close()
        assert gets_of_segments(proxy) == requests
