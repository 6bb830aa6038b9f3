"""The same batches to a Kafka 4.1.1 broker and to an AppendWriter: the same answers."""

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.errors import ErrorCode, SparklogError
from sparklog.group_commit.append_slots import Append, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.metadata.catalog import Catalog
from sparklog.model import Codec
from sparklog.storage import open_files
from tests.client_batches import NOW_MS, client_batch, with_fields
from tests.damage import Log, raw_batch, raw_record
from tests.kafka.broker import Broker, running_broker
from tests.kafka.scenarios import create_topic

pytestmark = pytest.mark.kafka

TOPICS = {
    "plain": {},
    "sequences": {},
    "bytes": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "200"},
    "strict": {
        "message.timestamp.before.max.ms": str(10**11),
        "message.timestamp.after.max.ms": "1000",
    },
    "uncompressed": {"compression.type": "uncompressed", "max.message.bytes": "300"},
}
SOUND = client_batch("a", "b")
NONE = 0


class Answer(NamedTuple):
    """The error code of a batch (0: none), and its offset if it has none."""

    code: int
    offset: int


class Wire:
    """A connection to a broker that speaks Produce 3 to 8, and nothing else."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=30)

    def produce(self, topic: str, batch: bytes, version: int = 8) -> Answer:
        """What the broker answers for one batch to partition 0."""
        name = topic.encode()
        request = struct.pack(">hhihhhi", 0, version, 1, -1, -1, -1, 10_000)
        request += struct.pack(f">ih{len(name)}sii", 1, len(name), name, 1, 0)
        request += struct.pack(">i", len(batch)) + batch
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._received(4))
        # Correlation id, one topic, its name, one partition, its number: then code and offset.
        return Answer(*struct.unpack_from(">hq", self._received(size), 4 + 4 + 2 + len(name) + 8))

    def close(self) -> None:
        self._socket.close()

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data


class Ours:
    """An AppendWriter that answers as the broker does."""

    def __init__(self, log_dir: Path) -> None:
        topics = [NewTopic(name, 1, {"retention.ms": "-1", **TOPICS[name]}) for name in TOPICS]
        AdminClient(log_dir).create_topics(topics)
        self._catalog = Catalog(open_files(str(log_dir)), SystemClock())
        self._ids = {name: topic.topic_id for name, topic in self._catalog.topics().items()}
        self._writer = AppendWriter(self._catalog, flush=False)

    def produce(self, topic: str, batch: bytes, version: int = 8) -> Answer:
        slot = Slot(Append(self._ids[topic], 0, batch), version)
        self._writer.write([slot])
        outcome = slot.outcome
        assert outcome is not None
        if isinstance(outcome, SparklogError):
            return Answer(int(outcome.code), -1)
        return Answer(NONE, outcome.base_offset)

    def stored(self, topic: str) -> bytes:
        """The bytes of partition 0, all of whose segments are sealed."""
        files, log = self._catalog.files, self._catalog.partition(self._catalog.topic(topic), 0)
        slices = [(one.log_path, one.log_bytes, one.log_position) for one in log.entries()]
        assert all(one.shift == 0 for one in log.entries())
        return b"".join(bytes(files.view(*place)) for place in slices)


class Both(NamedTuple):
    """The broker, and ours."""

    broker: Wire
    ours: Ours

    def produce(self, topic: str, batch: bytes, version: int = 8) -> Answer:
        """The answer of both."""
        theirs = self.broker.produce(topic, batch, version)

        assert self.ours.produce(topic, batch, version) == theirs
        return theirs


@pytest.fixture(scope="module")
def broker(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("judge") / "node") as found:
        for name, config in TOPICS.items():
            create_topic(found, name, config)
        yield found


@pytest.fixture(scope="module")
def both(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    wire = Wire(broker.bootstrap)
    yield Both(wire, Ours(tmp_path_factory.mktemp("ours") / "log"))
    wire.close()


INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
UNKNOWN_PRODUCER = {"producer_id": 99, "producer_epoch": 0, "base_sequence": 5}
CASES: dict[str, tuple[str, bytes, int]] = {
    "a sound one": ("plain", SOUND, NONE),
    **{f"sound, {one.name}": ("plain", client_batch("a", codec=one), NONE) for one in Codec},
    "of a producer that is not known": ("plain", with_fields(SOUND, **UNKNOWN_PRODUCER), NONE),
    "with a wrong largest time": ("plain", with_fields(SOUND, max_timestamp=5), NONE),
    "without times": ("strict", client_batch("a", times=[-1]), NONE),
    "twice": ("plain", SOUND + SOUND, INVALID),
    "nothing": ("plain", b"", INVALID),
    "half of one": ("plain", SOUND[:-1], INVALID),
    "of magic 1": ("plain", with_fields(SOUND, magic=1), INVALID),
    "of magic 3": ("plain", with_fields(SOUND, magic=3), CORRUPT),
    "with a size that is none": ("plain", with_fields(SOUND, length=13), CORRUPT),
    "with another base offset": ("plain", with_fields(SOUND, base_offset=1), INVALID),
    "with a wrong count": ("plain", with_fields(SOUND, record_count=3), INVALID),
    "with a record too few": (
        "plain", with_fields(SOUND, record_count=3, last_offset_delta=2), INVALID
    ),
    "with a record too many": (
        "plain", with_fields(SOUND, record_count=1, last_offset_delta=0), INVALID
    ),
    "without records": (
        "plain", with_fields(SOUND, record_count=0, last_offset_delta=-1), INVALID
    ),
    "of control records": ("plain", with_fields(SOUND, attributes=0x20), INVALID),
    "with a negative sequence": (
        "plain", with_fields(SOUND, producer_id=1, base_sequence=-1), INVALID
    ),
    "with a wrong checksum": ("plain", bytes(Log(SOUND).flip_byte(70).data), CORRUPT),
    "with a damaged record": ("plain", raw_batch(raw_record(b"\0\0\0\1\x62\0"), 1), INVALID),
    "without a key": ("compacted", client_batch("a", "b", keys=[b"k", None]), INVALID),
    "too large": ("small", client_batch("a" * 200), ErrorCode.MESSAGE_TOO_LARGE),
    "too large by the topic's codec": (
        "uncompressed",
        client_batch("a" * 2000, codec=Codec.GZIP),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "of another codec than the topic's": ("uncompressed", client_batch("a", codec=Codec.LZ4), NONE),
    "of the past": ("strict", client_batch("a", times=[5]), ErrorCode.INVALID_TIMESTAMP),
    "of the future": ("strict", client_batch("a", times=[2**50]), ErrorCode.INVALID_TIMESTAMP),
    "of any time, which the append overwrites": ("append-time", client_batch("a", times=[5]), NONE),
    "with a time of the append": (
        "append-time", with_fields(SOUND, attributes=8), ErrorCode.INVALID_TIMESTAMP
    ),
}  # fmt: skip
"""A batch, its topic, and the code of the answer."""


@pytest.mark.parametrize("case", CASES)
def test_a_batch_gets_the_broker_s_code(both: Both, case: str) -> None:
    topic, batch, code = CASES[case]

    assert both.produce(topic, batch).code == code


@pytest.mark.parametrize(("version", "code"), [(6, 76), (7, NONE)])
def test_zstd_is_taken_since_version_7(both: Both, version: int, code: int) -> None:
    assert both.produce("plain", client_batch("a", codec=Codec.ZSTD), version).code == code


def test_the_log_has_the_broker_s_bytes(both: Both, broker: Broker) -> None:
    batches = [client_batch("a", "b", codec=codec) for codec in Codec]
    batches += [with_fields(SOUND, **UNKNOWN_PRODUCER), with_fields(SOUND, max_timestamp=5)]
    for batch in batches:
        both.produce("bytes", batch)

    assert both.ours.stored("bytes") == broker.segments("bytes")[0].log.read_bytes()


@pytest.mark.parametrize("seed", range(5))
def test_sequences_get_the_broker_s_answers(both: Both, seed: int) -> None:
    """Goal: retries, gaps and epochs are answered as a broker answers them.

    Method: random batches of two producers, one after another, to both.
    """
    draw = random.Random(seed)
    sent: list[dict[str, int]] = []
    codes = set()
    for number in range(150):
        producer = 1000 * (seed + 1) + draw.randrange(2)
        own = [one for one in sent if one["producer_id"] == producer]
        last = own[-1] if own else {"producer_epoch": 0, "base_sequence": 2**31 - 5, "size": 1}
        kind = draw.choice(["next"] * 6 + ["retry"] * 3 + ["gap", "epoch", "fenced", "restart"])
        fields = {
            "producer_id": producer,
            "producer_epoch": last["producer_epoch"],
            "base_sequence": (last["base_sequence"] + last["size"]) % 2**31,
            "size": draw.randint(1, 3),
        }
        if kind == "retry" and own:
            fields = draw.choice(own[-7:])
        elif kind == "gap":
            fields["base_sequence"] = (fields["base_sequence"] + 1) % 2**31
        elif kind in ("epoch", "restart"):
            fields["producer_epoch"] += 1
            fields["base_sequence"] = 0 if kind == "restart" else fields["base_sequence"]
        elif kind == "fenced":
            fields["producer_epoch"] = max(0, fields["producer_epoch"] - 1)
        header = {name: value for name, value in fields.items() if name != "size"}
        values = [f"{number}-{i}" for i in range(fields["size"])]
        answer = both.produce("sequences", with_fields(client_batch(*values), **header))
        codes.add(answer.code)
        if answer.code == NONE and fields not in own:
            sent.append(fields)

    assert codes == {NONE, 45, 47}


def test_the_times_of_the_cases_are_allowed() -> None:
    assert SystemClock().now_ms() - NOW_MS < 10**11
