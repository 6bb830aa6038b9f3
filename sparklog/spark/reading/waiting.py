"""The open transactions for which a stream waits: the progress shows them, a timeout ends them.

A Python data source has no metrics, but it may report any JSON as the latest offset. If a
transaction is open, this JSON has a member WAITING beside the topics; no topic's name has a `$`.

    {"t": {"0": 5}, "$waiting": {"t-0": {"last_stable_offset": 5, "log_end_offset": 13,
        "transactional_id": "etl-1", "producer_id": 7, "open_for_s": 12}}}
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sparklog.clock import Clock, age_s
from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.open_transactions import opened_in
from sparklog.metadata.state.transactions import TransactionalIds
from sparklog.model import TopicPartition

log: Final = logging.getLogger("sparklog.spark")

WAITING: Final = "$waiting"

Held = Mapping[TopicPartition, TopicReader]
"""Partitions whose log goes on above the last stable offset, with readers of their topics."""


def held_back(
    places: Iterable[TopicPartition], readers: Mapping[str, TopicReader], isolation: str
) -> Held:
    """Return the partitions whose end, for this isolation level, is before the log end."""
    found = {}
    for place in places:
        log = readers[place.topic].partition(place.partition)
        if log.end_offset(isolation) < log.log_end_offset:
            found[place] = readers[place.topic]
    return found


class Waiting:
    """The partitions of a stream that are held back, and the transactions that hold them."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        # Loaded where a transaction is open.
        from sparklog.transactions.timeouts import OpenSince

        self._catalog = catalog
        self._clock = clock
        self._since = OpenSince()
        self._held: Held = {}

    def look(self, held: Held) -> None:
        """Remember the partitions that are held back; abort their transactions that timed out.

        If the log dir cannot be written to, or another process is faster, the stream goes on
        waiting.
        """
        self._held = held
        ids = self._catalog.image().transactional_ids
        places = {(one.image.description.topic_id, at.partition) for at, one in held.items()}
        for one in self._since.overdue(ids, self._clock.boot_ms()):
            if places.isdisjoint(one.partitions):
                continue
            from sparklog.transactions.steps import Transactions

            name = one.transactional_id
            log.info("transactional id %s: its transaction has timed out", name)
            try:
                Transactions(self._catalog).time_out(name, one.number)
            except SparklogError as error:
                log.warning("transactional id %s: it was not aborted: %s", name, error)

    def told(self) -> dict[str, Any]:
        """Return {WAITING: an object for each partition that is held back}; {} if there is none."""
        ids, now_ms = self._catalog.image().transactional_ids, self._clock.now_ms()
        found = {
            str(place): _told(reader, place.partition, ids, now_ms)
            for place, reader in sorted(self._held.items())
        }
        return {WAITING: found} if found else {}


def _told(
    reader: TopicReader, partition: int, ids: TransactionalIds, now_ms: int
) -> dict[str, Any]:
    held = reader.partition(partition)
    first = opened_in(reader.image.description.topic_id, held, ids)[0]
    return {
        "last_stable_offset": held.last_stable_offset,
        "log_end_offset": held.log_end_offset,
        "transactional_id": first.transactional_id,
        "producer_id": first.producer_id,
        "open_for_s": age_s(first.since_ms, now_ms),
    }
