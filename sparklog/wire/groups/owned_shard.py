"""A shard that this instance owns: its requests, its appends, and its timers.

    request ──▶ shard ──▶ answers ────────────────▶ sent when everything before them is durable
                     └──▶ records ──▶ AppendCommit ──▶ with the leader epoch of the claim

Records that wait for the same commit are one batch, as in a broker's coordinator
(`group.coordinator.append.linger.ms`): every batch has a cost of its own.
Others append offsets between the batches (`others_offsets`): `caught_up` waits for them.

An append that does not land ends the ownership: waiting requests are answered with an error, and
the groups are read from the log again. So does a request whose records cannot be encoded or are
larger than a batch may be: the shard has taken it, and differs from the log. Only that request is
told that it is at fault. The shard itself refuses commits, subscriptions and assignments that are
too large, before it takes them. Deletions and the targets of a consumer group are cut into batches.

Offsets expire by the last commit, and others may commit, too. So the shard first catches up with
the log, and the tombstones are appended only if nothing has come behind the records that it has.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from sparklog.clock import Clock
from sparklog.config import TopicConfig
from sparklog.coordinator.batches import batch_of, bytes_of, cut, fits
from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import Effects, JoinRequest, Now, Request
from sparklog.coordinator.shard import Shard
from sparklog.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    NotCoordinatorError,
    RecordTooLargeError,
    SparklogError,
    UnexpectedAppendOffsetError,
    UsageError,
)
from sparklog.group_commit.appends import Append, AppendCommit, Appended
from sparklog.metadata.state.image import Image
from sparklog.model import TopicDescription
from sparklog.record.layout import BATCH_HEADER_SIZE
from sparklog.wire.groups.others_offsets import OthersOffsets, Read

MS_PER_S: Final = 1000
NEVER_MS: Final = 2**63

BATCH_BYTES_MAX: Final = 64 * 1024
"""Records join a batch up to this size, or the topic's max.message.bytes if that is less."""

ID_BYTES_MAX: Final = 2**15 - 1 - 37
"""The most bytes of an id: keys have int16 sizes, and a made member id ends with a UUID."""

Answers = list[tuple["asyncio.Future[Any]", Any]]


class Claimed(NamedTuple):
    """A partition that this instance has claimed: the leader epoch of the claim, and its end."""

    topic: TopicDescription
    partition: int
    leader_epoch: int
    end_offset: int


@dataclass(eq=False, slots=True)
class _Batch:
    """Records that are appended together, and the answers behind them."""

    records: list[Record]
    answers: Answers
    size_bytes: int
    end_offset: int | None = None
    """If given, they are appended only where the log ends here."""


class Log(NamedTuple):
    """The claimed partition, to follow.

    `read` returns its records in [start, end), `end_offset` the log end offset in the newest image.
    """

    read: Read
    end_offset: Callable[[], Awaitable[int]]


class OwnedShard:
    """One partition of __consumer_offsets while this instance owns it. For one event loop."""

    def __init__(
        self,
        claimed: Claimed,
        shard: Shard,
        log: Log,
        appends: AppendCommit,
        clock: Clock,
        on_end: "Callable[[OwnedShard, SparklogError], None]",
        entry_ms: Callable[[], int],
    ) -> None:
        """`shard` holds the records of the claimed partition; `log` has later ones.

        `on_end` is called when the ownership ends, before the waiting requests get the error.
        `entry_ms` returns the time of the newest known entry (`Now`).
        """
        self.partition = claimed.partition
        self._on_end = on_end
        self.is_over = False
        self._topic = claimed.topic
        self._epoch = claimed.leader_epoch
        self._shard = shard
        self._end_offset = claimed.end_offset
        """The end of the log as this instance knows it: of its last batch, or of a gap."""
        self._others = OthersOffsets(log.read, shard.replay, self._move, self.end)
        self._moved = asyncio.Event()
        self._appends = appends
        self._clock = clock
        self._log = log
        self._entry_ms = entry_ms
        self._expiring: asyncio.Future[None] | None = None
        self._waiting: set[asyncio.Future[Any]] = set()
        self._in_flight: deque[_Batch] = deque()
        """The batches that are not durable yet."""
        self._growing: _Batch | None = None
        """The last of them, as long as records may still join it."""
        self._at_end: _Batch | None = None
        """The last batch that was to be appended only where the log ends."""
        most_bytes = TopicConfig.parse(claimed.topic.configs).max_message_bytes
        self._bytes_max = most_bytes
        self._batch_bytes_max = min(most_bytes, BATCH_BYTES_MAX)
        shard.loaded(self._now())
        self._timer_ms = clock.boot_ms()
        self._timer = asyncio.get_running_loop().call_later(0, self._tick)

    def _now(self) -> Now:
        return Now(self._clock.boot_ms(), self._clock.now_ms(), self._entry_ms())

    def ask(self, request: Request) -> "asyncio.Future[Any]":
        """Take a request; its answer comes when the state in it is durable."""
        token: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if problem := _problem(request):
            token.set_exception(problem)
            return token
        self._waiting.add(token)
        self._run(lambda: self._shard.handle(request, token, self._now()), token)
        return token

    def _run(
        self,
        step: Callable[[], Effects],
        token: "asyncio.Future[Any] | None" = None,
        *,
        at_end: bool = False,
    ) -> None:
        """Run a step of the shard for the request of `token`, and take its effects.

        With `at_end` its records are not appended behind records that the shard does not have.
        After an error the shard may differ from the log: the ownership ends.
        """
        try:
            effects = step()
            batches = [effects.records]
            if not fits(effects.records, self._bytes_max):
                batches = cut(effects.records, self._bytes_max)
                self._check(batches)
        except Exception as error:  # noqa: BLE001 - an encoder's errors are of many kinds
            self._fail(error, token)
        else:
            self._take(batches, effects.answers, at_end=at_end)

    def _fail(self, error: Exception, token: "asyncio.Future[Any] | None") -> None:
        if token is not None:
            self._waiting.discard(token)
            is_told = isinstance(error, SparklogError)
            token.set_exception(error if is_told else UsageError(f"not encodable: {error}"))
        self.end(CoordinatorNotAvailableError(f"a request could not be logged: {error!r}"))

    def _check(self, batches: list[list[Record]]) -> None:
        """Raise RecordTooLargeError if one of the batches is too large."""
        if (size := max(len(batch_of(one, 0)) for one in batches)) > self._bytes_max:
            raise RecordTooLargeError(
                f"records of {size} bytes for {self._topic.name}-{self.partition}: allowed are "
                f"{self._bytes_max} (max.message.bytes)"
            )

    def problem(self, image: Image) -> SparklogError | None:
        """Return an error if another process has claimed the partition, or the topic is gone.

        The image has the topic opened.
        """
        topic = image.existing(self._topic.topic_id)
        if topic is None:
            return CoordinatorNotAvailableError(f"topic {self._topic.name} is gone")
        log = topic.partition(self.partition)
        if log.leader_epoch != self._epoch:
            return NotCoordinatorError(f"{log.name} was claimed by another instance")
        return None

    @property
    def _known_end(self) -> int:
        first = self._others.first
        return self._end_offset if first is None else first

    async def caught_up(self, end_offset: int) -> bool:
        """Wait until the shard has all records before an offset; return False if it is over."""
        while not self.is_over and end_offset > self._known_end:
            if not self._in_flight and self._others.first is None:
                self._others.add(self._end_offset, end_offset)
                self._end_offset = end_offset
            await self._moved.wait()
        return not self.is_over

    def _move(self) -> None:
        """Wake the calls of `caught_up`."""
        self._moved.set()
        self._moved.clear()

    def _take(self, batches: list[list[Record]], answers: Answers, *, at_end: bool) -> None:
        """Append records; send the answers when the last batch of them is durable."""
        *front, last = batches
        for records in front:
            self._append(records, [], at_end=at_end)
        if last:
            self._append(last, answers, at_end=at_end)
        elif self._in_flight:
            self._in_flight[-1].answers.extend(answers)
        else:
            self._send(answers)
        self._set_timer()

    def _append(self, records: list[Record], answers: Answers, *, at_end: bool) -> None:
        """Add records to the batch that waits for its commit, or begin the next batch."""
        self._others.note(records)
        size = bytes_of(records)
        if at_end:
            end = self._end_offset + sum([len(one.records) for one in self._in_flight])
            self._growing = None  # else the end moves
            self._at_end = _Batch(records, answers, size + BATCH_HEADER_SIZE, end)
            self._send_off(self._at_end)
            return
        batch = self._growing
        if batch is not None and batch.size_bytes + size <= self._batch_bytes_max:
            batch.records += records
            batch.answers += answers
            batch.size_bytes += size
            self._appends.grew()
            return
        self._growing = _Batch(records, answers, size + BATCH_HEADER_SIZE)
        self._send_off(self._growing)

    def _send_off(self, batch: _Batch) -> None:
        """Append a batch when its group is taken."""
        self._in_flight.append(batch)
        done = self._appends.append_when_taken(lambda: self._made(batch))
        done.add_done_callback(self._landed)

    def _made(self, batch: _Batch) -> Append:
        """Return a batch to append; no record joins it any more."""
        if self._growing is batch:
            self._growing = None
        data = batch_of(batch.records, self._clock.now_ms())
        return Append(
            self._topic.topic_id, self.partition, data, self._epoch, end_offset=batch.end_offset
        )

    def _landed(self, done: "asyncio.Future[list[Appended | SparklogError]]") -> None:
        if self.is_over:
            return
        error = done.exception()
        outcome = error if error is not None else done.result()[0]
        if isinstance(outcome, Appended):
            if (base := outcome.base_offset) > self._end_offset:
                behind = [record for batch in self._in_flight for record in batch.records]
                self._others.add(self._end_offset, base, behind)
            batch = self._in_flight.popleft()
            self._end_offset = base + len(batch.records)
            self._send(batch.answers)
            self._move()
        elif isinstance(outcome, FencedLeaderEpochError):
            self.end(NotCoordinatorError(str(outcome)))
        elif isinstance(outcome, UnexpectedAppendOffsetError):
            self.end(CoordinatorNotAvailableError(str(outcome)))
        elif isinstance(outcome, SparklogError):
            self.end(outcome)
        else:
            self.end(CoordinatorNotAvailableError(f"an append failed: {outcome!r}"))

    def end(self, error: SparklogError) -> None:
        """End the ownership: everything that waits gets an error."""
        if self.is_over:
            return
        self.is_over = True
        self._timer.cancel()
        self._others.close()
        self._move()
        self._on_end(self, error)
        for token in list(self._waiting):
            if not token.done():
                token.set_exception(error)

    def _set_timer(self) -> None:
        """Wake when the shard's next timer is due."""
        next_ms = self._shard.next_ms
        if self.is_over or next_ms is None or self._timer_ms <= next_ms:
            return
        self._timer.cancel()
        wait_s = max(next_ms - self._clock.boot_ms(), 0) / MS_PER_S
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)
        self._timer_ms = next_ms

    def _tick(self) -> None:
        self._timer_ms = NEVER_MS
        if not self._shard.expires(self._now()):
            self._run(lambda: self._shard.tick(self._now()))
        elif self._expiring is None or self._expiring.done():
            self._expiring = asyncio.ensure_future(self._expire())

    async def _expire(self) -> None:
        """Run the timers when the shard has all records of the log.

        If the end of the log is unknown, the ownership ends. Offsets expire in steps: the batch of
        the step before must have landed.
        """
        try:
            end_offset = await self._log.end_offset()
        except SparklogError as error:
            self.end(error)
        else:
            await self.caught_up(end_offset)
        while not self.is_over and (
            self._others.first is not None or self._at_end in self._in_flight
        ):
            await self._moved.wait()
        if not self.is_over:
            self._run(lambda: self._shard.tick(self._now()), at_end=True)

    def _send(self, answers: Answers) -> None:
        for token, answer in answers:
            self._waiting.discard(token)
            if not token.done():  # a caller that no longer waits has cancelled it
                token.set_result(answer)


def _problem(request: Request) -> UsageError | None:
    """Return an error if a text is too long for a record (Kafka cannot write such a record)."""
    texts: Iterable[tuple[str, Any]] = zip(request._fields, request, strict=True)
    if isinstance(request, JoinRequest):
        texts = chain(texts, (("protocol name", one.name) for one in request.protocols))
    for name, value in texts:
        if not isinstance(value, str) or 4 * len(value) <= ID_BYTES_MAX:
            continue
        if (size := len(value.encode())) > ID_BYTES_MAX:
            return UsageError(f"{name} of {size} bytes: allowed are {ID_BYTES_MAX}")
    return None
