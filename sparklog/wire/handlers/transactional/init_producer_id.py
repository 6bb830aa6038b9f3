"""InitProducerId: the id and the epoch of an idempotent or a transactional producer.

A producer without a transactional id gets a new producer id with epoch 0 at each start, as from a
broker. A producer with a transactional id gets the next epoch of this id; the open transaction of
the former producer is aborted.
"""

from datetime import timedelta
from typing import Any, Final

from sparklog.errors import ErrorCode
from sparklog.metadata.plans.transactions import NOBODY, Producer
from sparklog.tokens import Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.transactional.transactions import may_use, take_step

NO_PRODUCER: Final = -1
EXPECTED_SINCE: Final = 3
"""The first version in which a producer may give its present id and epoch (KIP-360)."""
FENCED_SINCE: Final = 4
"""The first version whose answer may be PRODUCER_FENCED (KIP-588)."""


async def init_producer_id(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    found: Any
    if not _is_whole(call, request):
        found = ErrorCode.INVALID_REQUEST
    elif request.transactional_id is not None:
        found = await _of_transactional_id(call, request)
    elif not call.allows_somewhere(Scope.WRITE):
        found = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        found = Producer(await call.gateway.producer_ids.next(), 0)
    if isinstance(found, Producer):
        fields = {"producer_id": found.producer_id, "producer_epoch": found.epoch}
        return call.answer({"error_code": ErrorCode.NONE, **fields})
    fields = {"producer_id": NO_PRODUCER, "producer_epoch": NO_PRODUCER}
    return call.answer({"error_code": found, **fields})


def _is_whole(call: Call, request: Any) -> bool:
    """Return True if a request has both a producer id and an epoch, or has neither."""
    if call.version < EXPECTED_SINCE:
        return True
    return bool((request.producer_id == NO_PRODUCER) == (request.producer_epoch == NO_PRODUCER))


async def _of_transactional_id(call: Call, request: Any) -> Any:
    name, transactions = request.transactional_id, call.gateway.transactions
    if not name:
        return ErrorCode.INVALID_REQUEST
    if not may_use(call, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    expected = NOBODY
    if call.version >= EXPECTED_SINCE:
        expected = Producer(request.producer_id, request.producer_epoch)
    timeout_ms = request.transaction_timeout // timedelta(milliseconds=1)
    return await take_step(
        call,
        lambda: transactions.init(name, timeout_ms, expected),
        is_fenced_known=call.version >= FENCED_SINCE,
    )
