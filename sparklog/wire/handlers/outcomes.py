"""Requests for several resources: each resource has its own outcome.

An outcome is the library's result, or a SparklogError, whose code and message the answer has.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from sparklog.config.partitioners import BUILT_IN, DEFAULT
from sparklog.errors import ErrorCode, InvalidConfigError, SparklogError, UsageError
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call
from sparklog.wire.protocol.writing import shortened
from sparklog.wire.security.authorization import DENIED

Key = TypeVar("Key", bound=Hashable)
Wanted = TypeVar("Wanted")
Given = TypeVar("Given")

NO_TIME: Final = timedelta(0)
PARTITIONER: Final = "sparklog.partitioner"
log: Final = logging.getLogger("sparklog.gateway")


def refused(code: ErrorCode, message: str) -> UsageError:
    """Return the error for a value that is not allowed, in a field that only the protocol has."""
    return UsageError(message, code=code)


def error_fields(outcome: object) -> Mapping[str, Any]:
    """Return the fields `error_code` and `error_message` of an outcome."""
    if isinstance(outcome, SparklogError):
        return {"error_code": outcome.code, "error_message": shortened(outcome.message)}
    return {"error_code": ErrorCode.NONE, "error_message": None}


def check_admin(call: Call, topic: str, uuid: UUID | None = None) -> None:
    """Raise UsageError unless the client may administer a topic.

    If the client gave the topic's id instead of its name, the error has the id (`uuid`): the client
    may not know the name.
    """
    if not call.allows(Scope.ADMIN, topic):
        told = repr(topic) if uuid is None else f"id {uuid}"
        raise refused(DENIED[Resource.TOPIC], f"topic {told}: the client may not administer it")


def check_brokers(call: Call, node_ids: Sequence[int]) -> None:
    """Raise UsageError unless the node ids are different instances that are alive, one or more."""
    known = {one.node_id for one in call.gateway.instances.alive}
    if not node_ids or len(set(node_ids)) != len(node_ids) or not known.issuperset(node_ids):
        raise refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas {list(node_ids)}: allowed are brokers {sorted(known)}, each at most once",
        )


def check_values(values: Mapping[str, object], code: ErrorCode) -> None:
    """Raise SparklogError for values that a client may not give to topic configs.

    `code` is the error code for null: it depends on the API. A client must not choose a function as
    the partitioner: every writer of the topic would run it.
    """
    nulls = [name for name, value in values.items() if value is None]
    if nulls:
        raise refused(code, f"{', '.join(nulls)}: null is no value of a topic config")
    partitioner = values.get(PARTITIONER, DEFAULT)
    if partitioner not in BUILT_IN:
        raise InvalidConfigError(
            f"{PARTITIONER}={partitioner!r}: allowed over the protocol: {', '.join(BUILT_IN)}",
            key=PARTITIONER,
        )


async def outcomes(
    call: Call,
    entries: Sequence[tuple[Key, Given]],
    prepare: Callable[[Key, Given], Wanted],
    do: Callable[[dict[Key, Wanted]], Iterable[Any]],
    timeout: timedelta = NO_TIME,
) -> dict[Key, Any]:
    """Return the outcome of each entry of a request, by its key.

    `prepare` converts an entry to the library's argument, and raises SparklogError to refuse it.
    `do` carries out the accepted entries (`Call.administer`), and returns an outcome for each.
    Entries with the same key are refused. If `do` takes longer than `timeout` (0 or less: no
    limit), the outcome of all its entries is REQUEST_TIMED_OUT, and it goes on, as in a broker.
    """
    found: dict[Key, Any] = {}
    wanted: dict[Key, Wanted] = {}

    def prepared() -> None:
        for key, given in entries:
            if key in found or key in wanted:
                wanted.pop(key, None)
                found[key] = refused(ErrorCode.INVALID_REQUEST, "it comes twice in the request")
                continue
            try:
                wanted[key] = prepare(key, given)
            except SparklogError as error:
                found[key] = error

    await call.step(prepared)
    if wanted:
        found |= await _done(call, wanted, do, timeout)
    return await call.step(lambda: {key: found[key] for key, _ in entries})


async def _done(
    call: Call,
    wanted: dict[Key, Wanted],
    do: Callable[[dict[Key, Wanted]], Iterable[Any]],
    timeout: timedelta,
) -> dict[Key, Any]:
    work = asyncio.ensure_future(call.administer(lambda: list(do(wanted))))
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
    """Log a failure that comes too late for the answer; with its trace if it is a bug."""
    error = work.exception()
    if error is not None:
        trace = None if isinstance(error, SparklogError) else error
        log.warning("a request failed after its timeout: %s", error, exc_info=trace)
