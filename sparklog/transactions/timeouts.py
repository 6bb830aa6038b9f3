"""Transactions that have timed out, and transactional ids that have expired."""

from typing import Final

from sparklog.metadata.edit import Done, Edit
from sparklog.metadata.image import Image
from sparklog.metadata.transactions import TransactionalId, TransactionalIds

EXPIRE: Final = "EXPIRE TRANSACTIONAL IDS"
ID_EXPIRATION_MS: Final = 7 * 24 * 3600 * 1000
"""transactional.id.expiration.ms's default."""
CLOCKS_MS: Final = 5 * 60_000
"""No two machines' clocks are so far apart."""


class OpenSince:
    """Since when an observer sees transactions open, by its own clock: no clocks are compared."""

    def __init__(self) -> None:
        self._seen_ms: dict[tuple[str, int], int] = {}

    def overdue(self, ids: TransactionalIds, boot_ms: int) -> list[TransactionalId]:
        """Return those that are open for longer than their timeouts (transaction.timeout.ms)."""
        opened = {(one.transactional_id, one.number): one for one in ids.open.values()}
        self._seen_ms = {key: self._seen_ms.get(key, boot_ms) for key in opened}
        return [one for key, one in opened.items() if boot_ms - self._seen_ms[key] > one.timeout_ms]


def long_overdue(ids: TransactionalIds, now_ms: int) -> list[TransactionalId]:
    """Return those that were begun CLOCKS_MS more than their timeouts ago, by the log's times."""
    return [
        one for one in ids.open.values() if now_ms - one.started_ms > one.timeout_ms + CLOCKS_MS
    ]


def expired(ids: TransactionalIds, before_ms: int) -> list[TransactionalId]:
    """Return those without an open transaction that were last used before a time, by name."""
    return [
        one for _, one in sorted(ids.by_id.items()) if not one.is_open and one.used_ms < before_ms
    ]


def without_expired(image: Image, before_ms: int) -> Edit | Done:
    """Return the edit that forgets ids without an open transaction last used before a time.

    `transactional.id.expiration.ms` says how long ago that is.
    """
    gone = [one.transactional_id for one in expired(image.transactional_ids, before_ms)]
    if not gone:
        return Done()
    return Edit(
        operation=EXPIRE,
        parameters={"transactionalIds": ", ".join(gone)},
        transactional_ids=dict.fromkeys(gone),
    )
