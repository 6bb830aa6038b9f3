"""Transactions that take longer than they may, and transactional ids that nobody uses any more."""

from collections.abc import Iterable
from typing import Final

from sparklog.metadata.edit import Done, Edit
from sparklog.metadata.image import Image
from sparklog.metadata.transactions import TransactionalId, TransactionalIds

EXPIRE: Final = "EXPIRE TRANSACTIONAL IDS"


class OpenSince:
    """Since when an observer sees transactions open, by its own clock: no clocks are compared."""

    def __init__(self) -> None:
        self._seen_ms: dict[tuple[str, int], int] = {}

    def overdue(self, ids: TransactionalIds, boot_ms: int) -> list[TransactionalId]:
        """Return those that are open for longer than their timeouts (transaction.timeout.ms)."""
        opened = {(one.transactional_id, one.number): one for one in ids.open.values()}
        self._seen_ms = {key: self._seen_ms.get(key, boot_ms) for key in opened}
        return [one for key, one in opened.items() if boot_ms - self._seen_ms[key] > one.timeout_ms]


def without_expired(image: Image, before_ms: int) -> Edit | Done:
    """Return the edit that forgets ids without an open transaction last used before a time.

    `transactional.id.expiration.ms` says how long ago that is.
    """
    gone = sorted(_expired(image.transactional_ids.by_id.values(), before_ms))
    if not gone:
        return Done()
    return Edit(
        operation=EXPIRE,
        parameters={"transactionalIds": ", ".join(gone)},
        transactional_ids=dict.fromkeys(gone),
    )


def _expired(ids: Iterable[TransactionalId], before_ms: int) -> Iterable[str]:
    return (one.transactional_id for one in ids if not one.is_open and one.used_ms < before_ms)
