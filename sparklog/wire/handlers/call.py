"""Call: one request, with everything that its handler needs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from sparklog.author import acting_for
from sparklog.tokens import Resource, Scope, name_of
from sparklog.wire.instances import Instance
from sparklog.wire.protocol import messages
from sparklog.wire.protocol.headers import RequestHeader
from sparklog.wire.protocol.reading import ITEMS_MAX, Reader
from sparklog.wire.protocol.writing import Writer
from sparklog.wire.security.session import Session
from sparklog.wire.sending import Piece

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway

LONG_BYTES: Final = 16 * 1024
"""The steps of a longer request are taken beside the event loop.

It may have up to a million parts."""
Step = TypeVar("Step")
Reply = Sequence[Piece] | None
"""The pieces of an answer's body; None for no answer."""
Handled: TypeAlias = "Reply | Awaitable[Reply] | Later"
"""A reply, or something that becomes one."""


@dataclass(slots=True, eq=False)
class Later:
    """A reply that is made when a future is done, and all earlier requests are answered.

    The future of a fetch may be cancelled.

    It is faster than a coroutine, which needs a task and two more turns of the event loop.
    """

    done: "asyncio.Future[Any]"
    reply: Callable[["asyncio.Future[Any]"], Handled]
    """Makes the reply of `done`, which has a result or an exception."""


@dataclass(slots=True, eq=False)
class Call:
    """A request of a client. The frame's memory is not reused while the request has it."""

    gateway: "Gateway"
    session: Session
    header: RequestHeader
    frame: memoryview
    free: Callable[[int], None]
    """Frees so many bytes of the requests that are in progress."""
    is_long: bool = field(init=False)
    """Whether the request has more than LONG_BYTES."""

    def __post_init__(self) -> None:
        self.is_long = len(self.frame) > LONG_BYTES

    @property
    def version(self) -> int:
        """The version of the request, and of its answer."""
        return self.header.version

    @property
    def instances(self) -> Sequence[Instance]:
        """The instances that the client can reach: those with its listener (`Instances.at`)."""
        return self.gateway.instances.at(self.session.listener.name)

    def let_go(self) -> None:
        """Free the bytes of a request that is read, and may wait."""
        count, self.frame = len(self.frame), memoryview(b"")
        self.free(count)

    async def step(self, work: Callable[[], Step]) -> Step:
        """Take a step towards the answer: that of a long request beside the event loop."""
        return await self.gateway.beside(work) if self.is_long else work()

    def allows(self, scope: Scope, name: str = "", resource: Resource = Resource.TOPIC) -> bool:
        """Whether the client may do this to a resource, by default a topic (`authorization`)."""
        principal = self.session.principal
        return principal is not None and principal.allows(scope, name, resource)

    def sees(self, name: str, resource: Resource = Resource.TOPIC) -> bool:
        """Whether the client may see a resource: any scope allows it (Kafka's DESCRIBE)."""
        principal = self.session.principal
        return principal is not None and principal.sees(name, resource)

    def allows_somewhere(self, scope: Scope, resource: Resource = Resource.TOPIC) -> bool:
        """Whether the client has the scope on at least one resource of a kind."""
        principal = self.session.principal
        return principal is not None and principal.allows_somewhere(scope, resource)

    async def administer(self, question: Callable[[], Step]) -> Step:
        """Run a function that uses `admin` (`Gateway.administer`); its commits name the client."""
        name = name_of(self.session.principal)

        def asked() -> Step:
            with acting_for(name):
                return question()

        return await self.gateway.administer(asked)

    async def request(self) -> Any:
        """Return the same as `parsed`; a long body is read beside the event loop."""
        return await self.step(self.parsed)

    def parsed(self) -> Any:
        """Return the body as an instance of kio's class. Raises InvalidRequestError."""
        header = self.header
        return messages.parse(header.api_key, header.version, self.frame, header.body_at)

    def reader(self, items_max: int = ITEMS_MAX) -> Reader:
        """Return a reader of the body, for handlers that read it by hand."""
        header = self.header
        is_flexible = header.is_flexible
        return Reader(self.frame, header.body_at, is_flexible=is_flexible, items_max=items_max)

    def answer(self, fields: Mapping[str, Any]) -> Reply:
        """Return an answer with these fields (`messages`)."""
        return [messages.encode(self.header.api_key, self.version, fields)]

    def writer(self) -> Writer:
        """Return a writer in the encoding of the version."""
        return Writer(is_flexible=self.header.is_flexible)
