"""A gateway is killed under load: nothing acknowledged is lost, and nothing lands twice."""

import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from sparklog.admin import AdminClient, NewTopic
from sparklog.testing import TemporaryLogDir
from tests.waiting import until
from tests.wire.processes import GatewayProcess, gateway_process

pytestmark = pytest.mark.slow

RECORDS = 3000
KILLS = 3


class Sender:
    """An idempotent producer of the numbers from 0 on; remembers what each was answered."""

    def __init__(self, address: str, partition: int = 0) -> None:
        self._partition = partition
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self.outcomes: dict[int, tuple[KafkaError | None, int | None]] = {}

    def send(self, first: int, last: int) -> None:
        for number in range(first, last):
            self._producer.produce(
                "t",
                value=str(number),
                partition=self._partition,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)

    def flush(self) -> int:
        """How many were not acknowledged within a minute."""
        return self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.outcomes[int(message.value() or b"")] = error, message.offset()


def test_every_record_lands_once_and_in_order(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    AdminClient(log_dir).create_topics([NewTopic("t", 1)])
    with gateway_process(log_dir) as process:
        sender = Sender(process.address)
        part = RECORDS // KILLS
        for turn in range(KILLS):
            sending = threading.Thread(target=sender.send, args=(turn * part, (turn + 1) * part))
            sending.start()
            _kill_when_some_landed(process, log_dir, turn * part)
            process.start()
            sending.join()
        assert sender.flush() == 0
    found = [int(value or -1) for value in TemporaryLogDir(log_dir)["t"].values()]
    assert found == list(range(RECORDS))
    assert sender.outcomes == {number: (None, number) for number in range(RECORDS)}


def _kill_when_some_landed(process: GatewayProcess, log_dir: Path, before: int) -> None:
    """Kill the gateway when some records of this turn are in the log."""
    topic = TemporaryLogDir(log_dir)["t"]
    until(lambda: len(topic.values()) > before)
    process.kill()


def test_what_never_is_so_is_not_waited_for() -> None:
    with pytest.raises(TimeoutError, match="not so"):
        until(lambda: False, most_s=0.01)


def test_one_that_cannot_start_says_so(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("else")
    with pytest.raises(RuntimeError, match="ended with 2|ended with 1"):
        GatewayProcess(tmp_path).start()


def test_it_ends_without_an_error_when_it_is_told_to(tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "log")
    process.start()
    assert process.stop() == 0
