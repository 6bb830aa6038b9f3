"""Prints a `.snapshot` and a `.txnindex` as kafka-dump-log.sh does."""

from collections.abc import Iterator
from typing import Final

from sparklog.interop.broker_files.producer_snapshot import ProducerState, read_snapshot
from sparklog.interop.broker_files.txn_index import txn_index_pieces
from sparklog.interop.dumps.dump_log import DumpedFile, Text
from sparklog.interop.dumps.text_lines import Lines, content, numbers

_TXN_TEXTS: Final = {
    "version: ": "version",
    " producerId: ": "producer_id",
    " firstOffset: ": "first_offset",
    " lastOffset: ": "last_offset",
    " lastStableOffset: ": "last_stable_offset",
}


def dump_snapshot(file: DumpedFile) -> Iterator[bytes]:
    """Yield the lines of a producer snapshot. Raises CorruptionError if it is damaged."""
    for state in read_snapshot(file.data):
        yield f"{_producer(state)}\n".encode()


def dump_txn_index(file: DumpedFile) -> Iterator[Text]:
    """Yield the lines of a transaction index.

    Raises UsageError for a name without an offset, CorruptionError for an unknown version.
    """
    file.base_offset  # noqa: B018 - Kafka's tool asks for it first, and fails without one
    for entries in txn_index_pieces(file.data):
        parts = [
            part for title, name in _TXN_TEXTS.items() for part in (title, numbers(entries[name]))
        ]
        yield content(Lines(len(entries), *parts, "\n"))


def _producer(state: ProducerState) -> str:
    first = state.current_txn_first_offset
    text = (
        f"producerId: {state.producer_id} producerEpoch: {state.producer_epoch} "
        f"coordinatorEpoch: {state.coordinator_epoch} currentTxnFirstOffset: "
        f"{f'OptionalLong[{first}]' if first >= 0 else 'OptionalLong.empty'} "
        f"lastTimestamp: {state.timestamp} "
    )
    if state.last_offset >= 0:
        text += (
            f"firstSequence: {state.first_sequence} lastSequence: {state.last_sequence} "
            f"lastOffset: {state.last_offset} offsetDelta: {state.offset_delta} "
            f"timestamp: {state.timestamp}"
        )
    return text
