"""A small language for a compacted partition: put records, let time pass, compact, look.

Compacted().put("a=1", "b=2").put("a=3").put("z"), then compact(): shown() == "b=2 a=3 z"

A record is written `key=value`; `key` alone is a tombstone, `=value` a record without a key. Each
`put` is one segment of one batch, each record a millisecond later than the one before it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from hypothesis import strategies as st

from sparklog.fleet import LocalFleet
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.metadata.catalog import Landed, TopicPlan
from sparklog.metadata.state.edit import PartitionState
from sparklog.model import Codec, TopicDescription
from sparklog.record import layout
from tests.damage import Log
from tests.maintenance import context_of
from tests.naive.compaction import NaiveLog
from tests.naive.records import Record
from tests.partitions import Partition, Piece, encoded

COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}
T0 = 1_600_000_000_000
LARGE = "=" + "x" * 300
"""The end of a record's text: a value of 300 bytes."""


def parsed(text: str) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record as it is written here."""
    key, equals, value = text.partition("=")
    return key.encode() or None, value.encode() if equals else None


def shown(record: Record) -> str:
    """A record as it is written here."""
    key = "" if record.key is None else record.key.decode()
    return key if record.value is None else f"{key}={record.value.decode()}"


def keyed_batch(
    *texts: str,
    codec: Codec = Codec.NONE,
    time: int = T0,
    append_time: int | None = None,
    batch_bytes: int = 2**20,
) -> Piece:
    """A batch of such records (several if they exceed `batch_bytes`); odd ones have a header."""

    def at(offset: int) -> bytes:
        records = [
            Record(offset + n, time + n, *parsed(text), (("h", b"x"),) * (n % 2))
            for n, text in enumerate(texts)
        ]
        return encoded(records, offset, codec, append_time, batch_bytes)

    return at


def of_producer(
    piece: Piece, producer_id: int = 7, *, attributes: int = 0, time: int | None = None
) -> Piece:
    """The one batch of a piece, written by a producer, its newest record as old as `time` says."""

    def at(offset: int) -> bytes:
        data = Log(piece(offset)).put(layout.PRODUCER_ID, producer_id.to_bytes(8, "big"))
        data.data[layout.ATTRIBUTES + 1] |= attributes
        if time is not None:
            data.put(layout.MAX_TIMESTAMP, time.to_bytes(8, "big"))
        return bytes(data.fix_crc().data)

    return at


def current(records: Iterable[Record]) -> dict[bytes, bytes]:
    """What a log says of each key; a tombstone says that there is nothing."""
    found: dict[bytes, bytes | None] = {one.key: one.value for one in records if one.key}
    return {key: value for key, value in found.items() if value is not None}


def sent(*texts: str, producer: int = 7) -> Piece:
    """A batch within a transaction."""
    return of_producer(keyed_batch(*texts), producer, attributes=layout.TRANSACTIONAL_MASK)


class Compacted:
    """One compacted partition, its clock, and the jobs that run over it."""

    def __init__(self, **configs: Any) -> None:
        self.partition = Partition()
        given = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.catalog = context_of(self.partition, COMPACTED | given).catalog
        self.time = T0

    def put(self, *texts: str, sealed: bool = False, **options: Any) -> Self:
        """Append a segment."""
        piece = keyed_batch(*texts, time=self.time, **options)
        earliest = options.get("append_time") or self.time
        self.partition.append(piece, sealed=sealed, min_timestamp=earliest)
        self.time += len(texts)
        return self

    def add(self, *pieces: Piece | int, **columns: Any) -> Self:
        """Append a segment of any batches."""
        self.partition.append(*pieces, **columns)
        return self

    def skip(self, offsets: int) -> Self:
        """Leave offsets out, as a mounted log may: the next segment begins behind them."""
        state = PartitionState(log_end_offset=self.partition.end + offsets)
        self.partition.commit(partitions={0: state})
        return self

    def wait(self, ms: int) -> Self:
        """Let time pass."""
        self.catalog.clock.advance(ms)  # type: ignore[attr-defined] # a ManualClock
        return self

    @property
    def now_ms(self) -> int:
        return self.catalog.clock.now_ms()

    @property
    def context(self) -> JobContext:
        return JobContext(self.catalog, LocalFleet())

    def compact(self, *, force: bool = True, reindex: bool = False) -> Outcome | None:
        """Run the job; None when there was nothing to do."""
        options = {"force": force, "reindex": reindex}
        outcomes = [step.execute() for step in compact(self.context, [], options)]
        return outcomes[0] if outcomes else None

    def compacted(self, **options: bool) -> Outcome:
        """Run the job, which must find something to do."""
        outcome = self.compact(**options)
        assert outcome is not None
        return outcome

    def plan(self, *, force: bool = False) -> list[Mapping[str, Any]]:
        """What the job would do."""
        steps = compact(self.context, [], {"force": force, "reindex": False})
        return [row for step in steps for row in step.rows]

    def meanwhile(self, action: Callable[[], object]) -> Self:
        """Let somebody do something when the next commit has been prepared."""
        catalog = self.catalog
        commit = catalog.commit

        def late(topic: TopicDescription, plan: TopicPlan, **options: Any) -> Landed:
            del catalog.commit
            action()
            return commit(topic, plan, **options)

        catalog.commit = late  # type: ignore[method-assign] # once
        return self

    @property
    def records(self) -> list[Record]:
        """What a reader gets."""
        return self.partition.read()

    def shown(self) -> str:
        """The same, as it is written here."""
        return " ".join(shown(record) for record in self.records)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The offsets of each segment."""
        return [(entry.base_offset, entry.next_offset) for entry in self.partition.segments]


# --- any rounds ----------------------------------------------------------------------------------

Rounds = list[list[str] | int]
"""Records to put, and pauses in ms, each of which ends in a round of compaction."""

records = st.builds(
    lambda key, value: f"{key}{value}",
    st.sampled_from(["a", "b", "c", "d", "", "long key " * 5]),
    st.sampled_from(["", "=", "=1", "=22", "=" + "large " * 50]),
)
rounds = st.lists(
    st.one_of(st.lists(records, min_size=1, max_size=6), st.integers(0, 1500)), max_size=12
)
_B = "b=" + "x" * 300
MANY_ROUNDS: Rounds = [
    ["a=1", "a", _B], 0, ["b=1"], 1000, ["a=1"], 0, ["a", "c"], 1, ["d", "=", _B], 1500, ["c=1"], 9
]  # fmt: skip


def check_rounds(steps: Rounds, codec: Codec = Codec.NONE) -> None:
    """Fails unless compaction leaves what a dictionary leaves, after every step."""
    log, naive = Compacted(), NaiveLog(delete_retention_ms=1000)
    for step in steps:
        if isinstance(step, int):
            log.wait(step)
            now_ms, before = log.now_ms, log.partition.log.cleaner_offset
            log.compact()
            end = log.partition.log.cleaner_offset
            if end > before:
                naive.compact(end, now_ms)
        else:
            log.put(*step, codec=codec)
            naive.records += log.partition.records[-len(step) :]
        assert log.records == naive.records
