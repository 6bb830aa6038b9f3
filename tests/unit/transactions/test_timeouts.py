"""Timeouts of transactions, and ids that expire."""

from sparklog.metadata.edit import Done, Edit
from sparklog.metadata.image import Image
from sparklog.metadata.transactions import (
    TransactionalId,
    TransactionalIds,
    TransactionStatus,
)
from sparklog.transactions.timeouts import OpenSince, without_expired

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

    def test_leaves_no_trace_of_the_producer(self) -> None:
        ids = TransactionalIds([OPEN, ENDED])

        assert ids.after({"ended": None, "never": None}, 9).of_producer(2) is None
