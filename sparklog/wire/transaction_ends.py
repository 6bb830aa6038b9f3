"""Ends of transactions that their producers do not end: every instance watches all of them.

An instance aborts a transaction when it has seen it open for longer than its timeout. The first
instance ends it; the others find nothing to do.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from sparklog.errors import SparklogError
from sparklog.transactions.timeouts import OpenSince

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway

log: Final = logging.getLogger("sparklog.gateway")
MS_PER_S: Final = 1000


class TransactionEnds:
    """One instance's watch over the transactions of its log dir. For one event loop."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._since = OpenSince()

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        settings = self._gateway.settings
        interval_ms = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        while True:
            await self.look()
            await asyncio.sleep(interval_ms / MS_PER_S)

    async def look(self) -> None:
        """Abort overdue transactions, and forget expired ids. Errors are only logged."""
        gateway = self._gateway
        try:
            ids = (await gateway.image()).transactional_ids
            for one in self._since.overdue(ids, gateway.clock.boot_ms()):
                name, number = one.transactional_id, one.number
                log.info("transactional id %s: its transaction has timed out", name)
                await gateway.transact(partial(gateway.transactions.abort, name, number))
            before_ms = gateway.clock.now_ms() - gateway.settings.transactional_id_expiration_ms
            await gateway.transact(partial(gateway.transactions.expire, before_ms))
        except SparklogError as error:
            log.warning("transactions that have timed out were not aborted: %s", error)
        except Exception:  # a bug must not end the watch
            log.exception("transactions that have timed out were not aborted")
