"""SaslHandshake and SaslAuthenticate: a client proves its name.

After version 0 of the handshake the messages of the mechanism come as frames of their own, without
a header (`sasl_token`). If the authentication fails, the answer comes after a delay, and the
connection is closed.
"""

import asyncio
import logging
from typing import Final

from sparklog.errors import ErrorCode, SaslAuthenticationError
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.security import sasl

log: Final = logging.getLogger("sparklog.gateway")


def sasl_handshake(call: Call) -> Reply:
    """Return the answer: the mechanisms. After one that is not enabled the connection is closed."""
    mechanism = call.parsed().mechanism
    session, settings = call.session, call.gateway.settings
    enabled = [one for one in sasl.MECHANISMS if one in settings.sasl_enabled_mechanisms]
    if session.principal is not None or session.exchange is not None:
        return call.answer({"error_code": ErrorCode.ILLEGAL_SASL_STATE})
    if mechanism not in enabled:
        code, session.is_refused = ErrorCode.UNSUPPORTED_SASL_MECHANISM, True
        call.gateway.metrics.closed("authentication")
        return call.answer({"error_code": code, "mechanisms": enabled})
    session.exchange = sasl.exchange(mechanism, call.gateway.tokens, call.gateway.cluster_id)
    session.has_raw_tokens = call.version == 0
    return call.answer({"error_code": ErrorCode.NONE, "mechanisms": enabled})


async def sasl_authenticate(call: Call) -> Reply:
    """Return the answer of the mechanism."""
    message = call.parsed().auth_bytes
    exchange = call.session.exchange
    if exchange is None:
        told = "SaslAuthenticate without a SaslHandshake before it"
        return _answered(call, error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=told)
    try:
        answer = await _step(call, exchange, message)
    except SaslAuthenticationError as error:
        return _answered(call, error_code=error.code, error_message=error.message)
    return _answered(call, auth_bytes=answer)


def _answered(call: Call, **fields: object) -> Reply:
    """Return an answer whose session never expires (KIP-368)."""
    return call.answer({"session_lifetime": 0, **fields})


async def sasl_token(call: Call, exchange: sasl.Exchange) -> Reply:
    """Return the mechanism's answer to a frame without a header. Raises as `Exchange.step`."""
    return [await _step(call, exchange, bytes(call.frame))]


async def _step(call: Call, exchange: sasl.Exchange, message: bytes) -> bytes:
    session, gateway = call.session, call.gateway
    try:
        answer, session.principal = await exchange.step(message, gateway.image)
    except SaslAuthenticationError as error:
        session.exchange, session.is_refused = None, True
        gateway.metrics.closed("authentication")
        log.warning("%s: authentication failed: %s", session.peer, error)
        await asyncio.sleep(gateway.settings.connection_failed_authentication_delay_ms / 1000)
        raise
    if session.principal is not None:
        session.exchange = None
    return answer
