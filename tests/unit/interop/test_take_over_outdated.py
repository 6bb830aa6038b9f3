"""Transactional ids stay at the broker if partitions of their transactions are older here."""

import pytest

from sparklog.interop.imports.import_log import ImportOptions
from sparklog.interop.imports.take_over import TakenId, take_over
from sparklog.interop.imports.transaction_state import BrokerStatus
from sparklog.model import READ_COMMITTED
from tests.broker_files import batch, marker, write_segment
from tests.command_line import CommandLine
from tests.transactions import Instance
from tests.unit.interop.conftest import Interop
from tests.unit.interop.test_take_over import data, state, write

OUTDATED = "t-0 is not here up to the end of the broker's log: import it again, too"
COMMITTED, PREPARE_ABORT = BrokerStatus.COMPLETE_COMMIT, BrokerStatus.PREPARE_ABORT


@pytest.fixture
def broker(interop: Interop) -> Interop:
    """The first import sees a transaction of producer 7 in t-0, which commits since."""
    write_segment(interop.partition("a-0"), 0, batch(0))
    write_segment(interop.partition("t-0"), 0, data(0))
    interop.run()
    write_segment(interop.partition("t-0"), 0, data(0), marker(2, 7, 1), batch(3, 1))
    return interop


def taken(broker: Interop, *, topic: str) -> list[TakenId]:
    broker.run(ImportOptions(topics=[topic]))
    return take_over(broker.catalog, [str(broker.broker)])


@pytest.mark.parametrize("status", [COMMITTED, PREPARE_ABORT, BrokerStatus.ONGOING])
def test_a_transaction_in_a_topic_that_was_left_out_is_left_alone(
    broker: Interop, status: BrokerStatus
) -> None:
    write(broker, state("id", status))
    before = broker.log().state

    assert taken(broker, topic="a") == [TakenId("id", 7, status.name, problem=OUTDATED)]
    assert (broker.log().state, broker.log().transactions) == (before, ((7, 0),))


def test_and_is_whole_after_an_import_of_the_topic(broker: Interop) -> None:
    write(broker, state("id", COMMITTED))
    taken(broker, topic="a")

    [found] = taken(broker, topic="t")
    assert (found.state, found.aborted, found.problem) == ("CompleteCommit", (), None)
    assert broker.offsets("t", READ_COMMITTED) == [0, 1, 3]


def test_a_partition_without_a_directory_is_as_old(broker: Interop) -> None:
    write(broker, state("id", COMMITTED))
    (broker.broker / "t-0").rename(broker.broker / "elsewhere")

    assert [one.problem for one in taken(broker, topic="a")] == [OUTDATED]


def test_a_partition_that_is_damaged_now_is_as_old(broker: Interop) -> None:
    write(broker, state("id", COMMITTED))
    write_segment(broker.partition("t-0"), 0, b"x" * 100)

    assert [one.problem for one in taken(broker, topic="a")] == [OUTDATED]


def test_ids_without_such_a_partition_are_taken_over(broker: Interop) -> None:
    write(broker, state("id", COMMITTED, producerId=2**41), state("open", COMMITTED))

    assert [one.problem for one in taken(broker, topic="a")] == [None, OUTDATED]
    assert list(broker.catalog.image().transactional_ids.by_id) == ["id"]


def test_an_empty_segment_at_the_end_is_part_of_the_log(interop: Interop) -> None:
    write_segment(interop.partition("t-0"), 0, data(0))
    write_segment(interop.partition("t-0"), 5)
    write(interop, state("id", BrokerStatus.ONGOING))

    assert [one.problem for one in taken(interop, topic="t")] == [None]


def test_the_command_fails_and_tells_it(broker: Interop) -> None:
    write(broker, state("id", COMMITTED))
    found = CommandLine(str(broker.log_dir))(
        "import", broker.broker, "--topic", "a", "--transactional-ids", "-q"
    )

    assert (found.code, OUTDATED in found.err) == (1, True)
    assert Instance(str(broker.log_dir)).transactions.list() == []
