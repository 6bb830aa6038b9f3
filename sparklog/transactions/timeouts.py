"""Transactions that have timed out, and transactional ids that have expired."""

from typing import Final

from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import TransactionalId, TransactionalIds

EXPIRE: Final = "EXPIRE TRANSACTIONAL IDS"
ID_EXPIRATION_MS: Final = 7 * 24 * 3600 * 1000
"""The default of transactional.id.expiration.ms."""
EXPIRED_MAX: Final = 10_000
"""How many ids one entry forgets."""
CLOCKS_MS: Final = 5 * 60_000
"""The clocks of two machines are assumed to differ by less."""


class OpenSince:
    """The times at which a process first saw each open transaction, by its own clock."""

    def __init__(self) -> None:
        self._seen_ms: dict[tuple[str, int], int] = {}

    def overdue(self, ids: TransactionalIds, boot_ms: int) -> list[TransactionalId]:
        """Return transactions seen open for longer than their timeouts; `boot_ms` is now."""
        opened = {(one.transactional_id, one.number): one for one in ids.open.values()}
        self._seen_ms = {key: self._seen_ms.get(key, boot_ms) for key in opened}
        return [one for key, one in opened.items() if boot_ms - self._seen_ms[key] > one.timeout_ms]


def long_overdue(ids: TransactionalIds, now_ms: int) -> list[TransactionalId]:
    """Return transactions that began more than timeout + CLOCKS_MS ago, by the times in the log."""
    return [
        one for one in ids.open.values() if now_ms - one.started_ms > one.timeout_ms + CLOCKS_MS
    ]


def expired(ids: TransactionalIds, before_ms: int) -> list[TransactionalId]:
    """Return ids without an open transaction that were last used before a time, sorted."""
    found = [one for one in ids.by_id.values() if not one.is_open and one.used_ms < before_ms]
    return sorted(found)


def without_expired(image: Image, before_ms: int) -> Edit | Done:
    """Return the edit that forgets the first EXPIRED_MAX ids of `expired`; Done if there are none.

    Kafka's config for the time since the last use is transactional.id.expiration.ms.
    """
    found = expired(image.transactional_ids, before_ms)[:EXPIRED_MAX]
    gone = [one.transactional_id for one in found]
    if not gone:
        return Done()
    return Edit(
        operation=EXPIRE,
        parameters={"transactionalIds": ", ".join(gone)},
        transactional_ids=dict.fromkeys(gone),
    )
