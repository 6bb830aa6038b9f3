"""Aborts transactions that have timed out, and forgets unused ids: every instance watches all.

An instance aborts a transaction when it has seen it open for longer than its timeout. The first
instance that does so ends it; the others find nothing to do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from sparklog.errors import SparklogError
from sparklog.transactions.timeouts import OpenSince

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway

log: Final = logging.getLogger("sparklog.gateway")
MS_PER_S: Final = 1000
FORGET_EVERY_MS: Final = 3_600_000
"""How often expired ids are forgotten: the default of
transaction.remove.expired.transaction.cleanup.interval.ms."""


class TransactionEnds:
    """One instance's watch over the transactions of its log dir. For one event loop."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._since = OpenSince()

    def start(self) -> None:
        """Begin to watch."""
        settings, loop = self._gateway.settings, asyncio.get_running_loop()
        look_ms = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._tasks = [
            loop.create_task(_every(look_ms, self.look)),
            loop.create_task(_every(FORGET_EVERY_MS, self.forget)),
        ]

    async def close(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def look(self) -> None:
        """Abort overdue transactions. Errors are only logged."""
        await _logged(self._abort_overdue())

    async def forget(self) -> None:
        """Forget expired ids. Errors are only logged."""
        gateway = self._gateway
        before_ms = gateway.clock.now_ms() - gateway.settings.transactional_id_expiration_ms
        await _logged(gateway.transact(partial(gateway.transactions.expire, before_ms)))

    async def _abort_overdue(self) -> None:
        gateway = self._gateway
        ids = (await gateway.image()).transactional_ids
        for one in self._since.overdue(ids, gateway.clock.boot_ms()):
            name, number = one.transactional_id, one.number
            log.info("transactional id %s: its transaction has timed out", name)
            await _logged(gateway.transact(partial(gateway.transactions.time_out, name, number)))


async def _every(interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await work()
        await asyncio.sleep(interval_ms / MS_PER_S)


async def _logged(step: Awaitable[object]) -> None:
    """Await a step; only log its error, so that the other steps are taken."""
    try:
        await step
    except SparklogError as error:
        log.warning("transactions were not looked after: %s", error)
    except Exception:
        log.exception("transactions were not looked after")
