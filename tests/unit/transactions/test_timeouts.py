"""Timeouts of transactions, and ids that expire."""

from pathlib import Path

import pytest

from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import (
    TransactionalId,
    TransactionalIds,
    TransactionStatus,
)
from sparklog.transactions import timeouts
from sparklog.transactions.timeouts import OpenSince, without_expired
from tests.client_batches import NOW_MS
from tests.transactions import Client, Instance, new_log_dir

OPEN = TransactionalId("open", 1, 0, 100, TransactionStatus.ONGOING, number=1)
ENDED = TransactionalId("ended", 2, 0, 100, TransactionStatus.COMMITTED)


class TestOpenSince:
    def test_counts_from_the_first_look(self) -> None:
        since, ids = OpenSince(), TransactionalIds([OPEN, ENDED])

        found = [since.overdue(ids, now_ms) for now_ms in (5_000, 5_100, 5_101)]
        assert found == [[], [], [OPEN]]

    def test_another_transaction_begins_anew(self) -> None:
        since = OpenSince()
        since.overdue(TransactionalIds([OPEN]), 0)

        assert not since.overdue(TransactionalIds([OPEN._replace(number=2)]), 101)


class TestExpiry:
    def test_forgets_what_nobody_uses(self) -> None:
        image = Image(transactional_ids=TransactionalIds([OPEN, ENDED._replace(used_ms=7)]))

        edit = without_expired(image, 8)
        assert isinstance(edit, Edit)
        assert edit.transactional_ids == {"ended": None}
        assert without_expired(image, 7) == Done()

    @pytest.fixture
    def instance(self, tmp_path: Path) -> Instance:
        """An instance with three ids."""
        found = new_log_dir(str(tmp_path / "log"), "t")
        for name in "abc":
            Client(found, name).init()
        return found

    def test_takes_many_in_several_entries(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(timeouts, "EXPIRED_MAX", 2)
        version = instance.catalog.image().version
        instance.transactions.expire(NOW_MS + 1)

        assert instance.transactions.list() == []
        assert instance.catalog.image().version == version + 2

    def test_of_none_holds_up_no_commit(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: a plan that looks at all ids is not made under the turn of the commits."""
        monkeypatch.setattr(instance.catalog.log, "commit", None)
        instance.transactions.expire(NOW_MS)

        assert len(instance.transactions.list()) == 3

    def test_leaves_no_trace_of_the_producer(self) -> None:
        ids = TransactionalIds([OPEN, ENDED])

        assert ids.after({"ended": None, "never": None}, 9).of_producer(2) is None
