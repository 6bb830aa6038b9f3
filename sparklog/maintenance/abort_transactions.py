"""Aborts transactions that have timed out, as a job: without a gateway, and beside gateways.

A transaction is overdue if this process has seen it open for longer than its timeout: this compares
no clocks of two machines. A process that looks only once needs a second rule: a transaction is also
overdue if, by the time in the log, it began more than its timeout and five minutes ago. The clocks
of two machines are assumed to differ by less than five minutes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from sparklog.clock import age_s
from sparklog.errors import SparklogError
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.transactions import TransactionalId
from sparklog.transactions.timeouts import ID_EXPIRATION_MS, OpenSince, expired, long_overdue

SUBJECT: Final = "__transaction_state"
"""The subject of the job's one step: the name of Kafka's topic for the states of transactions."""

_SEEN: Final[WeakKeyDictionary[MetadataLog, OpenSince]] = WeakKeyDictionary()
"""When this process first saw each open transaction, by metadata log."""


def abort_transactions(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Abort transactions that are open for longer than transaction.timeout.ms.

    With `topics`, only transactions with a partition of one of them are aborted. If no gateway is
    registered, transactional ids without an open transaction are forgotten when they were not used
    for a week, the default of transactional.id.expiration.ms.
    """
    del options
    overdue, unused = _overdue(context, topics), _unused(context)
    if not overdue and not unused:
        return
    now_ms = context.clock.now_ms()
    rows = [
        *(
            {"abort": one.transactional_id, "age_s": age_s(one.started_ms, now_ms)}
            for one in overdue
        ),
        *({"forget": one.transactional_id, "age_s": age_s(one.used_ms, now_ms)} for one in unused),
    ]
    yield Step(topic=SUBJECT, rows=rows, execute=lambda: _execute(context, overdue, unused))


def _overdue(context: JobContext, topics: Sequence[str]) -> list[TransactionalId]:
    ids = context.catalog.image().transactional_ids
    since = _SEEN.setdefault(context.catalog.log, OpenSince())
    clock = context.clock
    seen = [*since.overdue(ids, clock.boot_ms()), *long_overdue(ids, clock.now_ms())]
    chosen = {topic.topic_id for topic in context.topics(topics)}
    found = {one.transactional_id: one for one in seen}
    return [
        one
        for _, one in sorted(found.items())
        if not topics or any(place.topic_id in chosen for place in one.partitions)
    ]


def _unused(context: JobContext) -> list[TransactionalId]:
    image = context.catalog.image()
    if image.brokers:
        return []
    return expired(image.transactional_ids, context.clock.now_ms() - ID_EXPIRATION_MS)


def _execute(
    context: JobContext, overdue: Sequence[TransactionalId], unused: Sequence[TransactionalId]
) -> Outcome:
    # Imported only if a transaction must be aborted: it loads the code that writes segments.
    from sparklog.transactions.steps import Transactions

    transactions, aborted, problems = Transactions(context.catalog), 0, []
    for one in overdue:
        try:
            aborted += transactions.time_out(one.transactional_id, one.number)
        except SparklogError as error:
            problems.append(f"transactional id {one.transactional_id!r}: {error}")
    if unused:
        transactions.expire(context.clock.now_ms() - ID_EXPIRATION_MS)
    return Outcome(counts={"aborted": aborted, "forgotten": len(unused)}, problems=problems)
