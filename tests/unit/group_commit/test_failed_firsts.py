"""Batches that the storage fails: those behind them do not land before them."""

from typing import Any
from unittest.mock import patch

import pytest

from sparklog.config import TopicConfig
from sparklog.errors import OutOfOrderSequenceError, StorageError
from sparklog.group_commit import append_writer, failed_firsts
from sparklog.group_commit.append_slots import Append, Slot
from sparklog.group_commit.failed_firsts import FailedFirsts
from sparklog.metadata.state.transactions import TransactionPartition
from sparklog.record.client_batch import check_client_batch
from tests.append_requests import World, run
from tests.client_batches import NOW_MS, client_batch
from tests.logs import catalog, values

PLACE = TransactionPartition("topic", 0)


def batch(sequence: int, producer_id: int = 7, epoch: int = 0) -> bytes:
    """A batch of one record, whose value is its sequence."""
    return client_batch(
        str(sequence), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def slot(data: bytes) -> Slot:
    return Slot(Append(*PLACE, data))


def after_a_failure(log_dir: str, monkeypatch: pytest.MonkeyPatch, *sequences: int) -> list[Any]:
    """The outcomes of batches, after the storage has failed a producer's first one."""

    def fails(*_: object) -> None:
        monkeypatch.undo()
        raise StorageError("the store is out of reach")

    async def work(world: World) -> list[Any]:
        monkeypatch.setattr(world.commit._writer, "_written", fails)
        first = world.send(batch(0))
        await world.begun()
        outcomes = [await first]
        outcomes += [await world.send(batch(number)) for number in sequences]
        return [getattr(one, "base_offset", type(one)) for [one] in outcomes]

    found: list[Any] = run(catalog(log_dir), work)
    return found


def test_the_next_batch_of_a_new_producer_waits_for_the_first(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = after_a_failure(log_dir, monkeypatch, 1, 0, 1)
    assert found == [StorageError, OutOfOrderSequenceError, 0, 1]
    assert values(log_dir)[0] == ["0", "1"]


def test_it_does_not_wait_for_longer_than_a_state_is_kept(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with patch.object(append_writer, "PRODUCER_ID_EXPIRATION_MS", -60_000):
        found = after_a_failure(log_dir, monkeypatch, 1)
    assert found == [StorageError, 0]


class TestFailedFirsts:
    def asked(self, failed: FailedFirsts, sequence: int, epoch: int = 0) -> bool:
        """Whether a batch may be a producer's first one."""
        try:
            failed.check(PLACE, self.checked(sequence, epoch))
        except OutOfOrderSequenceError:
            return False
        return True

    def checked(self, sequence: int, epoch: int = 0) -> Any:
        data = batch(sequence, epoch=epoch)
        return check_client_batch(data, TopicConfig.parse({}), NOW_MS, 13)

    def test_the_smallest_counts_until_one_lands(self) -> None:
        failed = FailedFirsts()
        for number in (5, 3, 4):
            failed.note(slot(batch(number)), NOW_MS)

        assert [self.asked(failed, number) for number in (3, 4)] == [True, False]
        assert self.asked(failed, 9, epoch=1)
        failed.landed(PLACE, self.checked(3))
        assert self.asked(failed, 9)

    @pytest.mark.parametrize("data", [b"damaged", client_batch("x")])
    def test_a_batch_without_a_producer_is_not_noted(self, data: bytes) -> None:
        failed = FailedFirsts()
        failed.note(slot(data), NOW_MS)

        assert not failed._lowest

    def test_the_oldest_is_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(failed_firsts, "KEPT", 1)
        failed = FailedFirsts()
        for producer_id in (7, 8):
            failed.note(slot(batch(0, producer_id)), NOW_MS)

        assert self.asked(failed, 1)

    def test_one_is_forgotten_when_a_state_would_be(self) -> None:
        """The client may have sent the batch again to another instance."""
        failed = FailedFirsts()
        failed.note(slot(batch(0)), NOW_MS)
        failed.forget(NOW_MS)
        assert not self.asked(failed, 9)
        failed.note(slot(batch(1)), NOW_MS + 5)
        failed.forget(NOW_MS + 5)
        assert not self.asked(failed, 9)
        failed.forget(NOW_MS + 6)
        assert self.asked(failed, 9)
