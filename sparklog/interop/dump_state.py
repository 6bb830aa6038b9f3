"""What kafka-dump-log.sh prints of a `.snapshot` and a `.txnindex`."""

from collections.abc import Iterator

from sparklog.interop.dump_log import DumpedFile
from sparklog.interop.producer_snapshot import ProducerState, read_snapshot
from sparklog.interop.txn_index import read_txn_index


def dump_snapshot(file: DumpedFile) -> Iterator[bytes]:
    """Yield the lines of a producer snapshot. Raises CorruptionError when it is damaged."""
    for state in read_snapshot(file.data):
        yield f"{_producer(state)}\n".encode()


def dump_txn_index(file: DumpedFile) -> Iterator[bytes]:
    """Yield the lines of a transaction index.

    Raises UsageError for a name that says no offset, CorruptionError for an unknown version.
    """
    file.base_offset  # noqa: B018 - Kafka's tool asks for it first, and fails without one
    for version, producer, first, last, stable in read_txn_index(file.data):
        yield (
            f"version: {version} producerId: {producer} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}\n"
        ).encode()


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
