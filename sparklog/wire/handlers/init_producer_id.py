"""InitProducerId: an id of its own for every idempotent producer, with epoch 0.

A producer that begins anew gets another id, as from a broker. Transactional ids are not served yet:
they are refused.
"""

from typing import Final

from sparklog.errors import ErrorCode, SparklogError
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply

NO_PRODUCER: Final = -1


async def init_producer_id(call: Call) -> Reply:
    """Return the answer."""
    request = call.request()
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not call.allows(Scope.WRITE, transactional_id, Resource.TRANSACTIONAL_ID):
            return _refused(call, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _refused(call, ErrorCode.INVALID_REQUEST)
    if not call.allows_somewhere(Scope.WRITE):
        return _refused(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        producer_id = await call.gateway.producer_ids.next()
    except SparklogError as error:
        return _refused(call, error.code)
    return call.answer(
        {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}
    )


def _refused(call: Call, code: int) -> Reply:
    fields = {"error_code": code, "producer_id": NO_PRODUCER, "producer_epoch": NO_PRODUCER}
    return call.answer(fields)
