"""A compacted log with transactions, read as Kafka's consumer reads it (CompletedFetch)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sparklog.log_reader.isolation import aborted_spans
from sparklog.model import AbortedRange
from sparklog.record.markers import ABORT, COMMIT, encode_marker
from sparklog.record.scan import scan_batches
from tests.compaction import T0, Compacted, current, sent
from tests.naive.decode import read_batch
from tests.naive.records import Record
from tests.partitions import Piece


class Event(NamedTuple):
    """A producer sends a record with a key, or, without a key, ends its transaction."""

    producer: int
    key: str = ""
    kind: int = COMMIT
    ends_segment: bool = True

    def at(self, offset: int) -> Piece:
        if self.key:
            return sent(f"{self.key}={offset}", producer=self.producer)
        return lambda base: encode_marker(self.kind, self.producer, 0, T0, base, 0)


class Transaction(NamedTuple):
    """Its producer, the offsets of its first record and of its marker, and the marker's kind."""

    producer: int
    first: int
    last: int
    kind: int


keys, kinds = st.sampled_from(["a", "b", "c", ""]), st.sampled_from([COMMIT, ABORT])
events = st.builds(Event, st.integers(7, 8), keys, kinds, st.booleans())


def closed(stage: Sequence[Event]) -> list[Event]:
    """The events without ends of nothing; what would stay open is committed."""
    found, is_open = list[Event](), set[int]()
    for event in [*stage, Event(7), Event(8)]:
        if event.key or event.producer in is_open:
            found.append(event)
            (is_open.add if event.key else is_open.discard)(event.producer)
    return found


def transactions(stage: Sequence[Event], offset: int) -> list[Transaction]:
    """The transactions of events that begin at an offset."""
    found, firsts = list[Transaction](), dict[int, int]()
    for place, event in enumerate(stage, offset):
        if event.key:
            firsts.setdefault(event.producer, place)
        else:
            first = firsts.pop(event.producer)
            found.append(Transaction(event.producer, first, place, event.kind))
    return found


def committed_offsets(stage: Sequence[Event], start: int) -> list[int]:
    """The offsets of records whose transaction is committed, in order."""
    return sorted(
        offset
        for one in transactions(stage, start)
        if one.kind == COMMIT
        for offset in range(one.first, one.last)
        if stage[offset - start].producer == one.producer
    )


def write(log: Compacted, stage: Sequence[Event]) -> None:
    """Append the events, each segment with the aborted transactions that reach into it."""
    known = transactions(stage, log.partition.end)
    pieces, base = list[Piece](), log.partition.end
    for offset, event in enumerate(stage, base):
        pieces.append(event.at(offset))
        if event.ends_segment or event is stage[-1]:
            aborted = tuple(
                AbortedRange(one.producer, one.first - base, one.last - base)
                for one in known
                if one.kind == ABORT and one.first <= offset and one.last >= base
            )
            log.add(*pieces, sealed=True, aborted=aborted)
            pieces, base = [], offset + 1


def consumed(log: Compacted, slot: int) -> list[Record]:
    """The records that a fetch from a segment on gives a consumer with read_committed."""
    rows = log.partition.segments[slot:]
    waiting = sorted(aborted_spans(rows), key=lambda one: one.first)
    ignored, found = set[int](), list[Record]()
    for place in range(slot, slot + len(rows)):
        data = log.partition.bytes_of(log.partition.path(slot=place))
        batches = scan_batches(data).batches
        for row, last in enumerate(batches.last_offset.tolist()):
            while waiting and waiting[0].first <= last:
                ignored.add(waiting.pop(0).producer_id)
            producer = int(batches.producer_id[row])
            batch = data[batches.position[row] : batches.end_position[row]]
            if not batches.is_control[row]:
                found += [] if producer in ignored else read_batch(batch)
            elif encode_marker(ABORT, producer, 0, T0, 0, 0)[-17:] == batch[-17:]:
                ignored.discard(producer)
    return found


def repeated_markers(log: Compacted) -> list[int]:
    """The offsets of markers behind another one of their producer, in clean segments.

    The last batch of a round may be one.
    """
    found = list[int]()
    for slot, entry in enumerate(log.partition.segments[:-1]):
        before = dict[int, bool]()
        batches = scan_batches(log.partition.bytes_of(log.partition.path(slot=slot))).batches
        for row, producer in enumerate(batches.producer_id.tolist()):
            is_marker = bool(batches.is_control[row])
            is_last = batches.last_offset[row] + 1 == entry.next_offset
            is_repeated = is_marker and before.get(producer, False) and not is_last
            found += [int(batches.base_offset[row])] * is_repeated
            before[producer] = is_marker
    return found


@given(st.lists(st.lists(events, max_size=12), min_size=1, max_size=3))
def test_a_consumer_gets_what_was_committed(given: list[list[Event]]) -> None:
    log, committed = Compacted(), dict[bytes, bytes]()
    for stage in map(closed, given):
        start = log.partition.end
        committed |= {
            stage[offset - start].key.encode(): str(offset).encode()
            for offset in committed_offsets(stage, start)
        }
        if stage:
            write(log, stage)
        log.put("newest=0")
        check(log, committed)
        log.compact()
        assert not repeated_markers(log)
        check(log, committed)


def check(log: Compacted, committed: Mapping[bytes, bytes]) -> None:
    """Fails unless a consumer gets the newest committed values, and from any segment on no other.

    Before the compaction a consumer has to leave out aborted records, behind it older ones.
    """
    for slot in range(len(log.partition.segments)):
        found = current(consumed(log, slot))
        found.pop(b"newest", None)
        assert found == committed if slot == 0 else found.items() <= committed.items()
