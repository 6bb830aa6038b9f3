"""All doors to one log dir: two gateways, REST, and the library, which Spark's tasks use.

Whatever door is taken, records go in and come out as tests.naive.records.Record.
"""

import base64
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sparklog.model import Codec, TopicDescription
from sparklog.testing import Record as Written
from sparklog.testing import TemporaryLogDir
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import batch_of, with_fields
from tests.naive.decode import BATCH_HEADER, read_log
from tests.naive.records import Record
from tests.rest.conftest import client_for, settings_for
from tests.wire.fetching import Part, fetched
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.requests import newest
from tests.wire.test_list_offsets import answers, list_request
from tests.wire.test_partitions import delete
from tests.wire.test_produce import init_request, named, produce_request

INSTANCES = 2


class Instance:
    """One gateway of the log dir, and a connection to it."""

    def __init__(self, log_dir: Path) -> None:
        self._stack = ExitStack()
        self.running: RunningGateway = self._stack.enter_context(gateway(log_dir))
        self.client: Client = self._stack.enter_context(Client(self.running.port))

    def close(self) -> None:
        self._stack.close()

    def send(
        self, topic: TopicDescription, partition: int, batch: bytes, version: int
    ) -> tuple[int, int]:
        """Produce a batch; return the error code and the base offset."""
        asked = produce_request(version, named(topic, version), (partition, batch))
        [answer] = self.client.ask(asked).responses[0].partition_responses
        return int(answer.error_code), answer.base_offset

    def read(self, topic: TopicDescription, version: int, part: Part) -> Any:
        """Fetch from one partition."""
        [answer] = fetched(self.client, topic, part, version=version)
        return answer

    def offset(self, topic: TopicDescription, partition: int, time: int) -> tuple[int, int]:
        """ListOffsets: the offset and the time."""
        asked = list_request(newest(ApiKey.LIST_OFFSETS), (topic.name, partition, time))
        [(error, found, offset)] = answers(self.client.ask(asked))
        assert error == 0
        return offset, found

    def delete(self, topic: TopicDescription, partition: int, offset: int) -> int:
        """DeleteRecords: the new log start offset."""
        [(_, found)] = delete(self.client, (topic.name, partition, offset))
        assert int(found.error_code) == 0
        return int(found.low_watermark)

    def new_producer(self) -> int:
        """Return the id of an idempotent producer."""
        asked = init_request(newest(ApiKey.INIT_PRODUCER_ID))
        return int(self.client.ask(asked).producer_id)


class Doors:
    """A log dir with all its doors open. Instances are numbered from 0."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.library = TemporaryLogDir(log_dir)
        self.instances = [Instance(log_dir) for _ in range(INSTANCES)]
        self._stack = ExitStack()
        self.rest = self._stack.enter_context(client_for(settings_for(log_dir)))

    def close(self) -> None:
        self._stack.close()
        for instance in self.instances:
            instance.close()

    def restart(self, number: int) -> None:
        """End an instance and start another one in its place."""
        self.instances[number].close()
        self.instances[number] = Instance(self.log_dir)

    # -------------------------------------------------------------------------------- produce

    def produce_by_rest(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Return the offset of the first record; the others follow it."""
        sent = [
            {"key": _text(one.key), "value": _text(one.value), "timestamp": one.timestamp}
            for one in records
        ]
        path = f"/topics/{topic}/partitions/{partition}"
        answer = self.rest.post(path, json={"records": sent})
        assert answer.status_code == 200, answer.text
        offsets = [one["offset"] for one in answer.json()["offsets"]]
        assert offsets == list(range(offsets[0], offsets[0] + len(records)))
        return int(offsets[0])

    def produce_by_library(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Return the offset of the first record."""
        written = [
            Written(one.value, one.key, partition=partition, timestamp=one.timestamp)
            for one in records
        ]
        (landed,) = self.library[topic].produce(*written)
        assert landed.span == len(records)
        return landed.start

    # ----------------------------------------------------------------------------------- read

    def read_by_gateway(
        self, number: int, topic: TopicDescription, part: Part, version: int
    ) -> list[Record]:
        """Read up to the log's end, one answer after the other, each of whole batches."""
        found: list[Record] = []
        end, offset = part.offset + 1, part.offset
        while offset < end:
            asked = Part(part.partition, offset, part.max_bytes)
            answer = self.instances[number].read(topic, version, asked)
            assert int(answer.error_code) == 0
            end, data = answer.high_watermark, bytes(answer.records or b"")
            assert data or offset == end, "nothing, though there is more"
            found += [one for one in read_log(data) if one.offset >= offset]
            offset = behind(data) if data else end
        return found

    def read_by_rest(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """Read up to the log's end, so many records at once."""
        path = f"/topics/{topic}/partitions/{partition}/records"
        found: list[Record] = []
        while True:
            query = {"offset": offset, "max_records": limit, "timeout": 0}
            answer = self.rest.get(path, params=query)
            assert answer.status_code == 200, answer.text
            some = [
                Record(one["offset"], one["timestamp"], _data(one["key"]), _data(one["value"]))
                for one in answer.json()
            ]
            if not some:
                return found
            found += some
            offset = some[-1].offset + 1

    def read_by_library(self, topic: str, partition: int) -> list[Record]:
        return [
            Record(
                int(one.offset or 0), int(one.timestamp or 0), _bytes(one.key), _bytes(one.value)
            )
            for one in self.library[topic].records(partition)
        ]


def batch(records: Sequence[Record], codec: Codec, **fields: int) -> bytes:
    """A batch as a client sends it."""
    numbered = [one._replace(offset=number) for number, one in enumerate(records)]
    return with_fields(batch_of(numbered, codec), **fields)


def behind(data: bytes) -> int:
    """The offset behind the last of some batches."""
    at = last = 0
    while at < len(data):
        (
            base,
            length,
            *_,
        ) = fields = BATCH_HEADER.unpack_from(data, at)
        last, at = base + fields[6], at + 12 + length
    return last + 1


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _data(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _bytes(value: str | bytes | None) -> bytes | None:
    assert not isinstance(value, str)
    return value
