"""One client: frames in, answers out, in the order of its requests.

A request begins when all earlier ones are answered, as in a broker. Produce requests after produce
requests begin at once, so that pipelined ones share an entry. If a client does not read its
answers, its requests do not begin; nor do they for the throttle time of an answer (KIP-219). If
more of them wait than may, or if they wait for room for their records, the gateway reads nothing
from the client until that changes.

Before a client is authenticated it may only ask for versions and authenticate. The gateway closes
the connection of a client that is idle or slow (`close_overdue`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sparklog.errors import InvalidRequestError, SaslAuthenticationError, SparklogError
from sparklog.wire.handlers import BEFORE_AUTHENTICATION, HANDLERS, Call, Handled, Later, Reply
from sparklog.wire.handlers.sasl import sasl_token
from sparklog.wire.protocol.frames import Frames
from sparklog.wire.protocol.headers import NO_HEADER, answer_header, request_header
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.security.session import Session
from sparklog.wire.sending import Answer, Sender
from sparklog.wire.serving.slot import Slot

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway
    from sparklog.wire.settings import Listener

REQUESTS_MAX: Final = 32
"""The most requests of a connection that wait or are in progress; then no further one is read."""
BYTES_MAX: Final = 1024 * 1024
"""If a request waits, and all requests of its connection have so many bytes, no more are read."""
IDLE: Final = "connections.max.idle.ms"
STORAGE_ERROR: Final = "storage error"
CLOSED: Final = "%s: connection closed: %s: %s"
log: Final = logging.getLogger("sparklog.gateway")


class Connection(asyncio.BufferedProtocol):
    """The protocol of one connection. For the event loop's thread."""

    def __init__(self, gateway: "Gateway", listener: "Listener") -> None:
        settings = gateway.settings
        self.session = Session(listener)
        self._gateway = gateway
        self._frames = Frames(
            settings.sasl_server_max_receive_size, gateway.buffer, gateway.large_frames
        )
        self._allow_large_frames()
        self._loop = asyncio.get_running_loop()
        self._opened = self._active = self._loop.time()
        self._frame_began: float | None = None
        self._held_bytes = self._large_bytes = 0
        self._address: str | None = None
        self._waiting: deque[memoryview] = deque()
        self._slots: deque[Slot] = deque()
        self._is_reading, self._is_closing = True, False
        self._room: asyncio.Future[None] | None = None
        self._muted: asyncio.TimerHandle | None = None
        self._transport: Any = None
        self._sender: Sender

    # ---------------------------------------------------------------------------------- transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or close it if there are too many."""
        self._transport = transport
        peer: Sequence[object] = self._transport.get_extra_info("peername") or ("unknown",)
        address = self.session.address = str(peer[0])
        self.session.peer = ":".join(map(str, peer[:2]))
        self._sender = Sender(transport, address, self._gateway.sent, self._go_on)
        if self._gateway.limits.admit(address):
            self._address = address
            self._gateway.connections.add(self)
            if self._gateway.is_ending:
                self.finish()
        else:
            self.cut_off("too many connections", "max.connections, max.connections.per.ip")

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return where the next bytes go."""
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that came; a connection that is closing takes none."""
        if self._is_closing or self._gateway.cut_off_after_standstill():
            return
        self._gateway.metrics.in_bytes += nbytes
        try:
            frames = self._frames.received(nbytes)
        except InvalidRequestError as error:
            self._failed(error)
            return
        self._waiting += frames
        if frames:
            self._hold(sum(map(len, frames)) - self._large_bytes)
            self._large_bytes = 0
        self._hold_large_frame()
        if not self._frames.has_part:
            self._frame_began = None
        elif frames or self._frame_began is None:
            self._frame_began = self._loop.time()
        self._go_on()

    def eof_received(self) -> bool:
        """Answer the received requests, then close; TLS closes at once. Fetches are dropped."""
        self._is_closing = True
        self._end_fetch()
        self._go_on()
        return not self.session.listener.is_tls

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Forget the waiting requests and their answers. Accepted records are still committed."""
        self._is_closing = True
        self._drop()
        self._unmute()
        self._sender.close()
        self._gateway.limits.forget(self._read_again)  # first: freed bytes would have it called
        self._hold(-self._held_bytes)
        self._gateway.forget(self)
        if self._address is not None:
            self._gateway.limits.leave(self._address)
            self._address = None

    def pause_writing(self) -> None:
        """Begin no further request: the client does not read its answers."""
        self._sender.pause()

    def resume_writing(self) -> None:
        """Begin the waiting requests: the client reads its answers again."""
        self._sender.resume()
        self._go_on()

    # ----------------------------------------------------------------------------------- requests

    def finish(self) -> None:
        """Take no new requests; close when those in progress are answered."""
        self._is_closing = True
        self._waiting.clear()
        self._close_when_answered()

    def _go_on(self) -> None:
        """Begin the requests that need not wait any more; close if those were the last ones."""
        while self._waiting and self._may_begin(self._waiting[0]):
            frame = self._waiting.popleft()
            try:
                self._begin(frame)
            except Exception as error:  # noqa: BLE001 - a bug costs this connection, and no other
                self._failed(error)
                return
            if self._is_closing:
                self._end_fetch()
        self._read_or_not()
        self._close_when_answered()

    def _may_begin(self, frame: memoryview) -> bool:
        if self._muted is not None or self._sender.is_paused or self._waits_for_room(frame):
            return False
        if _is_produce(frame) and self._waits_for_produce():
            return False
        return not self._slots or (
            _is_produce(frame) and self._slots[-1].header.api_key == ApiKey.PRODUCE
        )

    def _waits_for_produce(self) -> bool:
        """Return True while the last produce is being read: its batches do not count as pending."""
        before = self.session.produced
        if before is None or before.done():
            return False
        before.remove_done_callback(self._has_read)
        before.add_done_callback(self._has_read)
        return True

    def _has_read(self, _: "asyncio.Future[Any]") -> None:
        self._go_on()

    def _waits_for_room(self, frame: memoryview) -> bool:
        """Whether too many records wait for their commit; if so, go on when there is room again."""
        if self._gateway.appends.has_room or not _is_produce(frame):
            return False
        if self._room is None:
            self._room = asyncio.ensure_future(self._gateway.appends.room())
            self._room.add_done_callback(self._has_room)
        return True

    def _mute(self, throttle_ms: int) -> None:
        """Begin no request for so long."""
        self._unmute()
        self._gateway.metrics.throttle_ms += throttle_ms
        self._muted = self._loop.call_later(throttle_ms / 1000, self._speak_again)

    def _unmute(self) -> None:
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None

    def _speak_again(self) -> None:
        self._muted = None
        self._go_on()

    def _has_room(self, _: "asyncio.Future[None]") -> None:
        self._room = None
        self._go_on()

    def _begin(self, frame: memoryview) -> None:
        exchange = self.session.exchange if self.session.has_raw_tokens else None
        header = request_header(frame) if exchange is None else NO_HEADER
        if self.session.principal is None and header.api_key not in BEFORE_AUTHENTICATION:
            name = header.api_key.name
            raise InvalidRequestError(f"{name} before authentication (is security.protocol SASL…?)")
        began = self._loop.time()
        call = Call(self._gateway, self.session, header, frame, self._free)
        handler = HANDLERS[header.api_key]
        reply = handler(call) if exchange is None else sasl_token(call, exchange)
        slot = Slot(call, began, is_token=exchange is not None)
        self._slots.append(slot)
        self._take(slot, reply)

    def _take(self, slot: Slot, reply: Handled) -> None:
        """Give a request its answer, or the future that it comes from."""
        slot.take(reply)
        if slot.work is None:
            self._send_answers()
        else:
            slot.work.add_done_callback(self._answered)

    def _answered(self, done: "asyncio.Future[Any]") -> None:
        if done.cancelled():
            return
        done.exception()  # marked as retrieved: the client may go before it is its turn
        # If it is not due, an earlier call has sent the answer, or a later one will.
        if self._slots and self._slots[0].is_due:
            self._send_answers()
            self._go_on()

    def _send_answers(self) -> None:
        """Send the answers that are due, all at once: a commit answers several requests."""
        answers: list[Answer] = []
        try:
            while self._slots and self._slots[0].is_due:
                slot = self._slots[0]
                reply = slot.answer()
                if isinstance(reply, Awaitable | Later):
                    self._take(slot, reply)
                else:
                    answers += self._taken(self._slots.popleft(), reply)
        except Exception as error:  # noqa: BLE001 - a bug costs this connection, and no other
            self._sender.send(*answers)
            self._failed(error)
            return
        self._sender.send(*answers)
        if self.session.is_refused:
            self.finish()
        self._close_when_answered()

    def _taken(self, slot: Slot, reply: Reply) -> list[Answer]:
        """Count a request that is answered; return its answer, [] if it has none (acks=0)."""
        metrics, now = self._gateway.metrics, self._loop.time()
        self._active = now
        self._hold(-slot.size)
        metrics.answered(slot.header.api_key, now - slot.began)
        if slot.header.api_key == ApiKey.SASL_AUTHENTICATE:
            self._allow_large_frames()
        if self.session.throttle_ms:
            self._mute(self.session.throttle_ms)
            self.session.throttle_ms = 0
        if reply is None:
            return []
        metrics.out_bytes += sum(map(len, reply))
        return [(b"" if slot.is_token else answer_header(slot.header), reply)]

    def _allow_large_frames(self) -> None:
        if self.session.principal is not None:
            self._frames.max_bytes = self._gateway.settings.socket_request_max_bytes

    def _failed(self, error: BaseException) -> None:
        """Close the connection, as a broker does; log a bug (no SparklogError) with its trace."""
        if isinstance(error, InvalidRequestError | SaslAuthenticationError):
            self.cut_off("invalid request", error)
        elif isinstance(error, SparklogError):
            trouble = (STORAGE_ERROR, type(error.__cause__ or error))
            told = (self.session.peer, STORAGE_ERROR, error)
            self._gateway.seldom.warn(trouble, log, CLOSED, *told)
            self._close(STORAGE_ERROR)
        else:
            log.error("a request failed", exc_info=error)
            self.cut_off("internal error", repr(error))

    def cut_off(self, why: str, told: object) -> None:
        """Close the connection at once; requests in progress are not answered."""
        level = logging.DEBUG if told == IDLE else logging.WARNING  # many clients are often idle
        log.log(level, CLOSED, self.session.peer, why, told)
        self._close(why)

    def _close(self, why: str) -> None:
        self._gateway.metrics.closed(why)
        self._drop()
        self._transport.abort()

    def _drop(self) -> None:
        """Forget all requests. The bytes of a produce in progress count until it is committed."""
        self._waiting.clear()
        self._end_fetch()
        self.session.fetch = None  # it has a call, which has this connection
        for slot in self._slots:
            if slot.work is not None and slot.header.api_key == ApiKey.PRODUCE:
                self._held_bytes -= slot.size  # they count without the connection from now on
                slot.work.add_done_callback(partial(self._committed, slot.size))
        self._slots.clear()

    def _committed(self, count: int, _: "asyncio.Future[Any]") -> None:
        self._gateway.limits.add(-count)

    # ------------------------------------------------------------------------------------- limits

    def close_overdue(self, now: float) -> None:
        """Close the connection of a client that is slow or idle; `now` is the event loop's time.

        Called every second; every few seconds if there are thousands of connections.
        """
        is_whole = self._frame_began is None and not self._sender.is_paused
        if is_whole and self._slots and self.session.principal is not None:
            return  # it waits for an answer, as thousands of idle consumers do
        why = self._overdue(now)
        if why is not None and not self._transport.is_closing():
            self.cut_off("timeout", why)

    def _overdue(self, now: float) -> str | None:
        """Return the name of the setting whose time is over; None if none is."""
        settings = self._gateway.settings
        if not self._is_reading:
            self._frame_began = self._frame_began and now
        opened = self._opened if self.session.principal is None else None
        if opened is not None and (now - opened) * 1000 > settings.authentication_timeout_ms:
            return "authentication.timeout.ms"
        began = self._frame_began
        if began is not None and (now - began) * 1000 > settings.receive_timeout_ms:
            return "receive.timeout.ms"
        stuck = self._sender.stuck_since(now)
        if stuck is not None and (now - stuck) * 1000 > settings.send_timeout_ms:
            return "send.timeout.ms"
        idle = None if self._slots or self._waiting else self._active
        if idle is not None and (now - idle) * 1000 > settings.connections_max_idle_ms:
            return IDLE
        return None

    def _hold(self, count: int) -> None:
        """Count received bytes of this connection's requests; a negative `count` frees bytes."""
        self._held_bytes += count
        self._gateway.limits.add(count)

    def _free(self, count: int) -> None:
        self._hold(-count)

    def _hold_large_frame(self) -> None:
        """Count the large frame that has begun, if there is room: only then is it read further."""
        if self._frames.large_bytes and not (self._large_bytes or self._gateway.limits.is_full):
            self._large_bytes = self._frames.large_bytes
            self._hold(self._large_bytes)

    def _end_fetch(self) -> None:
        """End the waiting fetch of a client that has gone: no other request runs beside a fetch."""
        slot = self._slots[0] if self._slots else None
        if slot is not None and slot.work is not None and slot.header.api_key == ApiKey.FETCH:
            slot.work.cancel()
            self._slots.clear()

    def _read_or_not(self) -> None:
        if self._transport.is_closing():
            return
        limits = self._gateway.limits
        is_full = bool(self._waiting) and self._held_bytes >= BYTES_MAX
        is_full = is_full or len(self._waiting) + len(self._slots) >= REQUESTS_MAX
        may_read = self._room is None and not is_full
        if may_read and limits.is_full and not self._large_bytes:
            may_read = False
            limits.wait(self._read_again)
        if may_read != self._is_reading:
            self._is_reading = may_read
            if may_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _read_again(self) -> None:
        self._hold_large_frame()
        self._read_or_not()

    def _close_when_answered(self) -> None:
        if self._is_closing and not (self._slots or self._waiting) and self._transport:
            self._sender.close_when_sent()


def _is_produce(frame: memoryview) -> bool:
    return bytes(frame[:2]) == b"\0\0"
