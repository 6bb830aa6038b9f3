"""A stream waits for open transactions, tells of them, and ends those that take too long."""

import json
from pathlib import Path
from typing import ClassVar

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.errors import OffsetOutOfRangeError, StorageError
from sparklog.metadata.state.edit import OpenTransaction
from tests.client_batches import NOW_MS
from tests.edits import edited
from tests.logs import append, catalog
from tests.streams import Json, Stream, span, two_partitions
from tests.transactions import TIMEOUT_MS, Client, Instance, new_log_dir


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return two_partitions(tmp_path / "log")


class TestOpenTransaction:
    """Imports leave it open, and end it: a reader of committed records stays before it."""

    COMMITTED: ClassVar[Json] = {"isolation.level": "read_committed"}

    @pytest.fixture
    def log_dir(self, log_dir: str) -> str:
        """With a transaction open from offset 5 of partition 0 on."""
        self.transactions(log_dir, OpenTransaction(7, 5))
        return log_dir

    def transactions(self, log_dir: str, *opened: OpenTransaction) -> None:
        """Let these be the open transactions of partition 0."""
        found = catalog(log_dir)
        edited(found, found.topic("t"), transactions={0: opened})

    def test_holds_the_stream_up_until_it_ends(self, log_dir: str) -> None:
        stream = Stream(log_dir, **self.COMMITTED)
        assert stream.step() == {"t-0": span(0, 5), "t-1": span(0, 10)}
        append(log_dir, 0, range(3))
        assert stream.step() is None
        self.transactions(log_dir)

        assert stream.step() == {"t-0": span(5, 13)}
        assert stream.step() is None

    def told(self, stream: Stream) -> tuple[Json, Json | None]:
        """Return the progress of a query: log ends, and the transactions that hold the stream."""
        found = stream.reader.reportLatestOffset()
        assert found is not None
        return found["t"], found.get("$waiting")

    def test_is_told_in_the_progress_while_it_lasts(self, log_dir: str) -> None:
        stream = Stream(log_dir, **self.COMMITTED)
        stream.step()
        ends, found = self.told(stream)
        assert found is not None
        assert found["t-0"].pop("open_for_s") >= 0
        waits = {"last_stable_offset": 5, "log_end_offset": 10, "producer_id": 7}
        assert (ends, found) == ({"0": 5, "1": 10}, {"t-0": waits | {"transactional_id": None}})
        self.transactions(log_dir)
        stream.step()

        assert self.told(stream) == ({"0": 10, "1": 10}, None)

    def test_is_told_to_nobody_who_does_not_wait(self, log_dir: str) -> None:
        stream = Stream(log_dir)
        stream.step()

        assert self.told(stream) == ({"0": 10, "1": 10}, None)

    def begun(self, tmp_path: Path) -> tuple[str, Stream, ManualClock]:
        """A log dir with an open transaction, and a stream that has looked at it."""
        log_dir, clock = str(tmp_path / "ids"), ManualClock(NOW_MS + 12_345)
        client = Client(new_log_dir(log_dir, "t"), "etl-1")
        client.init()
        client.produce("x")
        append(log_dir, 0, ["y"])
        stream = Stream(log_dir, clock, **self.COMMITTED)
        assert stream.step() == {}
        return log_dir, stream, clock

    def test_is_ended_when_it_has_taken_too_long(self, tmp_path: Path) -> None:
        log_dir, stream, clock = self.begun(tmp_path)
        clock.advance(TIMEOUT_MS)
        stream.step()
        assert Instance(log_dir).state("etl-1").is_open
        clock.advance(1)
        stream.step()
        assert not Instance(log_dir).state("etl-1").is_open

        assert stream.step() == {"t-0": [1]}

    def test_is_waited_for_where_it_cannot_be_ended(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def refused(*_: object) -> None:
            raise StorageError("the log dir is read-only")

        log_dir, stream, clock = self.begun(tmp_path)
        monkeypatch.setattr("sparklog.transactions.steps.Transactions.time_out", refused)
        clock.advance(TIMEOUT_MS + 1)

        assert stream.step() is None
        assert "etl-1: it was not aborted: the log dir is read-only" in caplog.text
        assert Instance(log_dir).state("etl-1").is_open

    def test_of_other_topics_is_left_to_others(self, tmp_path: Path) -> None:
        log_dir, _, clock = self.begun(tmp_path)
        AdminClient(log_dir).create_topics([NewTopic("u")])
        client = Client(Instance(log_dir), "other")
        client.init()
        client.produce("x", topic="u")
        stream = Stream(log_dir, clock, **self.COMMITTED)
        stream.step()
        clock.advance(TIMEOUT_MS + 1)
        stream.step()

        open_ids = Instance(log_dir).catalog.image().transactional_ids.open
        assert list(open_ids) == ["other"]

    def test_has_a_name_and_an_age(self, tmp_path: Path) -> None:
        _, stream, _ = self.begun(tmp_path)
        found = self.told(stream)[1]

        assert found is not None
        assert found["t-0"] | {"producer_id": 0} == {
            "last_stable_offset": 0,
            "log_end_offset": 2,
            "transactional_id": "etl-1",
            "producer_id": 0,
            "open_for_s": 12,
        }

    def test_lets_the_stream_go_on_to_the_next_one(self, log_dir: str) -> None:
        stream = Stream(log_dir, **self.COMMITTED)
        stream.step()
        self.transactions(log_dir, OpenTransaction(9, 8))

        assert stream.restart().step() == {"t-0": span(5, 8)}

    def test_is_nothing_to_readers_of_uncommitted_records(self, log_dir: str) -> None:
        assert Stream(log_dir).step() == {"t-0": span(0, 10), "t-1": span(0, 10)}

    def test_is_where_a_stream_of_what_is_new_begins(self, log_dir: str) -> None:
        stream = Stream(log_dir, startingOffsets=None, **self.COMMITTED)
        assert stream.step() == {}
        assert self.told(stream)[0] == {"0": 5, "1": 10}
        self.transactions(log_dir)

        assert stream.step() == {"t-0": span(5, 10)}

    def test_ends_a_stream_that_takes_what_there_is(self, log_dir: str) -> None:
        stream = Stream(log_dir, **self.COMMITTED)
        stream.reader.prepareForTriggerAvailableNow()

        assert stream.step() == {"t-0": span(0, 5), "t-1": span(0, 10)}
        assert stream.step() is None

    def test_is_not_waited_for_before_it_where_a_stream_begins_behind(self, log_dir: str) -> None:
        starting = json.dumps({"t": {"0": 7}})
        stream = Stream(log_dir, startingOffsets=starting, **self.COMMITTED)
        assert stream.step() == {}
        self.transactions(log_dir)

        assert stream.step() == {"t-0": span(7, 10)}

    def test_holds_up_what_has_read_beyond_it(self, log_dir: str) -> None:
        """The stream was started again with another isolation level."""
        stream = Stream(log_dir)
        stream.step()
        stream.options |= self.COMMITTED
        append(log_dir, 0, range(1))
        assert stream.restart().step() is None
        self.transactions(log_dir)

        assert stream.step() == {"t-0": [10]}

    def test_is_not_run_into_by_a_batch_that_was_planned_otherwise(self, log_dir: str) -> None:
        stream = Stream(log_dir)
        end = stream.plan()
        stream.options |= self.COMMITTED

        with pytest.raises(OffsetOutOfRangeError, match="for read_committed: a transaction is op"):
            stream.restart().run(end)
