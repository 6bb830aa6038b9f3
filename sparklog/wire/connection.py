"""One client: frames in, answers out, in the order of its requests.

A request begins when those before it are answered, as in a broker. Produce requests behind produce
requests begin at once, so that pipelined ones share an entry. A client that sends more than may
wait, or takes nothing of what is sent, is not read from until that changes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Final

from sparklog.errors import InvalidFrameError, InvalidRequestError, SparklogError
from sparklog.wire.frames import Frames
from sparklog.wire.handlers import HANDLERS, Call, Reply
from sparklog.wire.headers import RequestHeader, answer_header, request_header
from sparklog.wire.sending import Sender
from sparklog.wire.session import Session
from sparklog.wire.versions import ApiKey

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway
    from sparklog.wire.settings import Listener

REQUESTS_MAX: Final = 32
"""So many requests of a connection may wait or be in progress before it is read no further."""
log: Final = logging.getLogger("sparklog.gateway")


class _Slot:
    """A request in progress, and its answer when it has one."""

    __slots__ = ("header", "is_answered", "reply")

    def __init__(self, header: RequestHeader) -> None:
        self.header = header
        self.is_answered = False
        self.reply: Reply = None


class Connection(asyncio.BufferedProtocol):
    """The protocol of one connection. For the event loop's thread."""

    def __init__(self, gateway: "Gateway", listener: "Listener") -> None:
        self.session = Session(listener)
        self._gateway = gateway
        self._frames = Frames(gateway.settings.socket_request_max_bytes)
        self._waiting: deque[memoryview] = deque()
        self._slots: deque[_Slot] = deque()
        self._is_reading = True
        self._is_closing = False
        self._room: asyncio.Future[None] | None = None
        self._transport: Any = None
        self._sender: Sender = Sender(None)

    # ---------------------------------------------------------------------------------- transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport
        self._sender = Sender(transport)
        self._gateway.connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return where the next bytes go."""
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that came."""
        try:
            self._waiting += self._frames.received(nbytes)
        except InvalidFrameError as error:
            self._refuse(error)
            return
        self._go_on()

    def eof_received(self) -> bool:
        """Answer what was asked, then close."""
        self._is_closing = True
        self._close_when_answered()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Forget what waits: nobody takes the answers. What was accepted is committed."""
        self._is_closing = True
        self._waiting.clear()
        self._slots.clear()
        self._sender.close()
        self._gateway.connections.discard(self)

    def pause_writing(self) -> None:
        """Begin no further request: the client takes nothing."""
        self._sender.pause()

    def resume_writing(self) -> None:
        """Go on."""
        self._sender.resume()
        self._go_on()

    # ----------------------------------------------------------------------------------- requests

    def finish(self) -> None:
        """Take no new requests; close when those in progress are answered."""
        self._is_closing = True
        self._waiting.clear()
        self._close_when_answered()

    def _go_on(self) -> None:
        """Begin the requests whose turn it is."""
        while self._waiting and self._may_begin(self._waiting[0]):
            frame = self._waiting.popleft()
            try:
                self._begin(frame)
            except InvalidRequestError as error:
                self._refuse(error)
                return
            except Exception:
                log.exception("a request failed; its connection is closed")
                self._transport.abort()
                return
        self._read_or_not()

    def _may_begin(self, frame: memoryview) -> bool:
        if self._sender.is_paused or self._waits_for_room(frame):
            return False
        return not self._slots or (
            _is_produce(frame) and self._slots[-1].header.api_key == ApiKey.PRODUCE
        )

    def _waits_for_room(self, frame: memoryview) -> bool:
        """Whether too many records wait for their commit; then go on when they do not any more."""
        if not _is_produce(frame) or self._gateway.appends.has_room:
            return False
        if self._room is None:
            self._room = asyncio.ensure_future(self._gateway.appends.room())
            self._room.add_done_callback(self._has_room)
        return True

    def _has_room(self, _: "asyncio.Future[None]") -> None:
        self._room = None
        self._go_on()

    def _begin(self, frame: memoryview) -> None:
        header = request_header(frame)
        slot = _Slot(header)
        self._slots.append(slot)
        call = Call(self._gateway, self.session, header, frame)
        reply = HANDLERS[ApiKey(header.api_key)](call)
        if isinstance(reply, Awaitable):
            asyncio.ensure_future(reply).add_done_callback(lambda done: self._answered(slot, done))
        else:
            slot.reply, slot.is_answered = reply, True
            self._send_answers()

    def _answered(self, slot: _Slot, done: "asyncio.Future[Reply]") -> None:
        if done.cancelled() or not self._slots:
            return
        error = done.exception()
        if error is not None:
            if not isinstance(error, SparklogError):
                log.error("a request failed; its connection is closed", exc_info=error)
            self._refuse(error)
            return
        slot.reply, slot.is_answered = done.result(), True
        self._send_answers()
        self._go_on()

    def _send_answers(self) -> None:
        while self._slots and self._slots[0].is_answered:
            slot = self._slots.popleft()
            if slot.reply is not None:
                self._sender.send(answer_header(slot.header), slot.reply)
        self._close_when_answered()

    def _refuse(self, error: BaseException) -> None:
        """Close the connection, as a broker does with what it cannot understand."""
        log.warning("%s: connection closed: %s", self._peer(), error)
        self._waiting.clear()
        self._slots.clear()
        self._transport.abort()

    def _peer(self) -> str:
        name: Sequence[object] | None = self._transport.get_extra_info("peername")
        return "unknown" if not name else ":".join(map(str, name[:2]))

    def _read_or_not(self) -> None:
        may_read = len(self._waiting) + len(self._slots) < REQUESTS_MAX
        if may_read != self._is_reading and not self._transport.is_closing():
            self._is_reading = may_read
            if may_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _close_when_answered(self) -> None:
        if self._is_closing and not (self._slots or self._waiting) and self._transport:
            self._sender.close_when_sent()


def _is_produce(frame: memoryview) -> bool:
    return bytes(frame[:2]) == b"\0\0"
