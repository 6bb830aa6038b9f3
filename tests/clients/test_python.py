"""kafka-python, aiokafka and confluent-kafka: topics, records, groups that go on, configs.

Each goes the same way: it makes a topic, produces, reads half in a group and commits, reads the
rest as another member, looks at the group and deletes the topic. The records are looked at in the
log dir besides.
"""

import asyncio
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import pytest

from tests.clients.conftest import Served, numbers

pytestmark = pytest.mark.clients

HALF, ALL = 200, 400


class TestKafkaPython:
    def test_goes_the_whole_way(self, served: Served) -> None:
        topic, group = served.new_name(), served.new_name()
        with kafka.KafkaAdminClient(bootstrap_servers=served.address) as admin:
            admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
            with kafka.KafkaProducer(bootstrap_servers=served.address, acks="all") as producer:
                for value in numbers(0, ALL):
                    producer.send(topic, value.encode(), key=value.encode())
            assert served.values(topic) == numbers(0, ALL)
            first = self.read(served, topic, group, HALF)
            second = self.read(served, topic, group, ALL - len(first))
            assert sorted(first + second) == numbers(0, ALL)
            [offsets] = admin.list_group_offsets([group]).values()
            assert sum(one.offset for one in offsets.values()) == ALL
            admin.delete_topics([topic])
            assert topic not in admin.list_topics()

    @pytest.mark.parametrize("release", [(0, 11), (1, 0), (2, 0)])
    def test_with_the_requests_of_an_old_release(
        self, served: Served, release: tuple[int, int]
    ) -> None:
        """Those of Kafka 0.11, of 2017, begin with Produce 3 and Fetch 4."""
        topic, old = served.new_topic(), {"api_version": release}
        where = {"bootstrap_servers": served.address, **old}
        with kafka.KafkaProducer(**where, enable_idempotence=False, acks=1) as producer:
            sent = [producer.send(topic, value.encode()) for value in numbers(0, ALL)]
            assert [one.get(30).topic for one in sent] == [topic] * ALL
        assert served.values(topic) == numbers(0, ALL)
        assert sorted(self.read(served, topic, served.new_name(), ALL, **old)) == numbers(0, ALL)

    def read(self, served: Served, topic: str, group: str, least: int, **options: Any) -> list[str]:
        """The values that a member of a group reads, and commits: so many at least."""
        found: list[str] = []
        consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=served.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=50,
            **options,
        )
        with consumer:
            while len(found) < least:
                for some in consumer.poll(timeout_ms=1000).values():
                    found += [one.value.decode() for one in some]
            consumer.commit()
        return found


class TestAiokafka:
    def test_goes_the_whole_way(self, served: Served) -> None:
        asyncio.run(self.go(served, served.new_name(), served.new_name()))

    async def go(self, served: Served, topic: str, group: str) -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=served.address)
        await admin.start()
        await admin.create_topics([aiokafka.admin.NewTopic(topic, 2, 1)])
        options = {"bootstrap_servers": served.address, "enable_idempotence": True}
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            sent = [await producer.send(topic, value.encode()) for value in numbers(0, ALL)]
            await asyncio.gather(*sent)
        assert served.values(topic) == numbers(0, ALL)
        first = await self.read(served, topic, group, HALF)
        second = await self.read(served, topic, group, ALL - len(first))
        assert sorted(first + second) == numbers(0, ALL)
        offsets = await admin.list_consumer_group_offsets(group)
        assert sum(one.offset for one in offsets.values()) == ALL
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()
        await admin.close()

    async def read(self, served: Served, topic: str, group: str, least: int) -> list[str]:
        found: list[str] = []
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=served.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer:
            while len(found) < least:
                batches = await consumer.getmany(timeout_ms=1000, max_records=50)
                found += [one.value.decode() for some in batches.values() for one in some]
            await consumer.commit()
        return found


class TestConfluentKafka:
    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_goes_the_whole_way(self, served: Served, protocol: str, codec: str) -> None:
        topic, group = served.new_name(), served.new_name()
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": served.address})
        wanted = [confluent_kafka.admin.NewTopic(topic, 2)]
        admin.create_topics(wanted)[topic].result(30)
        options: dict[str, Any] = {"enable.idempotence": True, "compression.type": codec}
        producer = confluent_kafka.Producer({"bootstrap.servers": served.address, **options})
        for value in numbers(0, ALL):
            producer.produce(topic, value, key=value)
        assert producer.flush(60) == 0
        assert served.values(topic) == numbers(0, ALL)
        first = self.read(served, topic, group, protocol, HALF)
        second = self.read(served, topic, group, protocol, ALL - len(first))
        assert sorted(first + second) == numbers(0, ALL)
        admin.delete_topics([topic])[topic].result(30)
        assert topic not in admin.list_topics(timeout=30).topics

    def read(self, served: Served, topic: str, group: str, protocol: str, least: int) -> list[str]:
        found: list[str] = []
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": served.address,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        while len(found) < least:
            found += [(one.value() or b"").decode() for one in consumer.consume(50, timeout=1)]
        consumer.commit(asynchronous=False)
        consumer.close()
        return found
