"""Verify over one partition in files, sound or damaged."""

from functools import partial

from sparklog.log.names import LOG_SUFFIX
from sparklog.maintenance.job import Outcome
from sparklog.maintenance.verification.verify import verify
from sparklog.record.markers import ABORT, encode_marker
from tests.client_batches import NOW_MS, client_batch
from tests.maintenance import outcome_of
from tests.partitions import Partition, batch
from tests.transactions import TRANSACTIONAL

ZERO = {"index.interval.bytes": "0"}
"""The interval of the indexes that tests.partitions writes."""

check = partial(outcome_of, verify, repair=False, records=False, configs=ZERO)
repair = partial(outcome_of, verify, repair=True, records=False, configs=ZERO)


def two() -> Partition:
    """Two segments of three batches of two records each."""
    parts = [batch(n, n + 1, size=10) for n in range(6)]
    return Partition().append(*parts[:3]).append(*parts[3:])


def damaged() -> Partition:
    """The same, a byte of its fourth batch turned: offsets 6 and 7."""
    partition = two()
    return partition.flip_byte(partition.path(LOG_SUFFIX, 1), 70)


def record(
    offset: int, producer: int = 7, attributes: int = TRANSACTIONAL, count: int = 1
) -> bytes:
    """A batch of a transaction."""
    return client_batch(
        "x",
        producer_id=producer,
        base_offset=offset,
        base_sequence=offset,
        attributes=attributes,
        record_count=count,
    )


def abort(offset: int) -> bytes:
    """The marker that aborts the transaction of producer 7."""
    return encode_marker(ABORT, 7, 0, NOW_MS, offset, 0)


def sound(outcome: Outcome) -> bool:
    """Whether there is nothing to tell."""
    return not outcome.problems and not outcome.notes
