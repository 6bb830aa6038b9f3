"""What one request asks of several resources: each has its own outcome.

An outcome is what the library gave, or a SparklogError: its code and message are the answer's.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from sparklog.errors import ErrorCode, SparklogError, UsageError
from sparklog.tokens import Resource, Scope
from sparklog.wire.authorization import DENIED
from sparklog.wire.config_names import check_no_code
from sparklog.wire.handlers.call import Call

Key = TypeVar("Key", bound=Hashable)
Wanted = TypeVar("Wanted")
Given = TypeVar("Given")

NO_TIME: Final = timedelta(0)


def refused(code: ErrorCode, message: str) -> UsageError:
    """Return the error of something that only the protocol knows, and that is not allowed."""
    return UsageError(message, code=code)


def error_fields(outcome: object) -> Mapping[str, Any]:
    """Return the fields `error_code` and `error_message` of an outcome."""
    if isinstance(outcome, SparklogError):
        return {"error_code": outcome.code, "error_message": outcome.message}
    return {"error_code": ErrorCode.NONE, "error_message": None}


def check_admin(call: Call, topic: str) -> None:
    """Raise UsageError unless the client may administer a topic."""
    if not call.allows(Scope.ADMIN, topic):
        raise refused(DENIED[Resource.TOPIC], f"topic {topic!r}: the client may not administer it")


def check_values(values: Mapping[str, object], code: ErrorCode) -> None:
    """Raise SparklogError for values that no topic config may get over the protocol.

    `code` is that of null, for which Kafka has two.
    """
    nulls = [name for name, value in values.items() if value is None]
    if nulls:
        raise refused(code, f"{', '.join(nulls)}: null is no value of a topic config")
    check_no_code(values)


async def outcomes(
    call: Call,
    entries: Sequence[tuple[Key, Given]],
    prepare: Callable[[Key, Given], Wanted],
    do: Callable[[dict[Key, Wanted]], Iterable[Any]],
    timeout: timedelta = NO_TIME,
) -> dict[Key, Any]:
    """Return what became of each entry of a request, by its key.

    `prepare` makes of an entry what the library takes, and raises SparklogError for one that is
    refused; `do` does the others in the thread of the administrator, and gives an outcome for each.
    An entry whose key comes twice is refused. After `timeout` (0 or less: never) an entry's outcome
    is REQUEST_TIMED_OUT, and what was begun goes on, as in a broker.
    """
    found: dict[Key, Any] = {}
    wanted: dict[Key, Wanted] = {}
    for key, given in entries:
        if key in found or key in wanted:
            wanted.pop(key, None)
            found[key] = refused(ErrorCode.INVALID_REQUEST, "it comes twice in the request")
            continue
        try:
            wanted[key] = prepare(key, given)
        except SparklogError as error:
            found[key] = error
    if wanted:
        found |= await _done(call, wanted, do, timeout)
    return {key: found[key] for key, _ in entries}


async def _done(
    call: Call,
    wanted: dict[Key, Wanted],
    do: Callable[[dict[Key, Wanted]], Iterable[Any]],
    timeout: timedelta,
) -> dict[Key, Any]:
    work = asyncio.ensure_future(call.gateway.administer(lambda: list(do(wanted))))
    seconds = timeout.total_seconds() if timeout > NO_TIME else None
    await asyncio.wait([work], timeout=seconds)
    if not work.done():
        work.add_done_callback(_told)
        late = refused(ErrorCode.REQUEST_TIMED_OUT, f"not done within {seconds} s; it goes on")
        return dict.fromkeys(wanted, late)
    error = work.exception()
    if isinstance(error, SparklogError):
        return dict.fromkeys(wanted, error)
    return dict(zip(wanted, work.result(), strict=True))


def _told(work: "asyncio.Future[Any]") -> None:
    """Take note of a failure that no answer tells any more."""
    work.exception()
