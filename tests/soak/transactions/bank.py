"""The bank: as of a version without an open transaction, the accounts have what they began with.

audit        while it goes on: `versionAsOf`, records and all
audit_all    at the end: every version of the metadata log, by what the log has at the end up to
             where the version ends; some of them by `versionAsOf` besides
"""

import random
import time
from collections.abc import Iterator, Mapping
from typing import Final

from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.past import PastCatalog
from sparklog.metadata.state.image import Image
from tests.soak.setup import Life
from tests.soak.transactions.history import Audited, Pairs
from tests.soak.transactions.setup import ACCOUNTS, PARTITIONS

AUDIT_EVERY_S: Final = 0.5
LOOK_BACK: Final = 40
"""Versions behind the newest one of which an audit takes one."""
READ_VERSIONS: Final = 60
"""How many versions are read by `versionAsOf` at the end."""


def audit(life: Life) -> None:
    """Look at versions of the metadata log until the deadline."""
    catalog, journal, draw = life.catalog(), life.journal(), life.draws()
    first = first_version(catalog)
    while time.monotonic() < life.deadline:
        newest = catalog.image().version
        version = draw.randint(max(newest - LOOK_BACK, first), newest)
        journal.note(audited(catalog, version))
        time.sleep(AUDIT_EVERY_S)


def first_version(catalog: Catalog) -> int:
    """The version that made the last account."""
    version = catalog.image().version
    topics = [catalog.topic(name).topic_id for name in ACCOUNTS]
    return next(
        number
        for number, image in images(catalog, version)
        if all(image.topic(topic_id) is not None for topic_id in topics)
    )


def audited(catalog: Catalog, version: int) -> Audited:
    """The accounts as of a version, read as read_committed."""
    past, money, is_closed = PastCatalog(catalog, version=version), 0, True
    for account in ACCOUNTS:
        reader = TopicReader.open(past, account)
        for number in range(PARTITIONS):
            log = reader.partition(number)
            end = log.end_offset("read_committed")
            is_closed &= end == log.log_end_offset
            slices = reader.slices(number, log.log_start_offset, end)
            for records in read_slices(
                reader.files, reader.directory, slices, isolation="read_committed"
            ):
                money += sum(map(amount_of, map(bytes.decode, records.value.to_pylist())))
    return Audited(version, is_closed, money)


def amount_of(value: str) -> int:
    """The amount that a record moves to its account."""
    return int(value.rpartition("/")[2])


def images(catalog: Catalog, last: int) -> Iterator[tuple[int, Image]]:
    """Yield the image of each version up to the last; all entries must be there."""
    image = Image()
    for version in range(last + 1):
        entry = catalog.log.entries.read(version)
        assert entry is not None, f"entry {version} is gone"
        image = image.apply(entry.edits, entry.stamp)
        yield version, image


def audit_all(life: Life, final: Mapping[str, Pairs]) -> Iterator[Audited]:
    """Yield the accounts as of every version; `final` is what read_committed sees at the end."""
    catalog, draw = life.catalog(), random.Random(life.seed)
    ids = {name: catalog.topic(name).topic_id for name in ACCOUNTS}
    last, first = catalog.image().version, first_version(catalog)
    chosen = {draw.randint(first, last) for _ in range(READ_VERSIONS)} | {last}
    met, money = dict.fromkeys(final, 0), 0
    for version, image in images(catalog, last):
        if version < first:
            continue
        is_closed = True
        for account, topic_id in ids.items():
            for number in range(PARTITIONS):
                log = image.topics[topic_id].partition(number)
                is_closed &= not log.transactions
                key = f"{account}:{number}"
                pairs = final[key]
                while met[key] < len(pairs) and pairs[met[key]][0] < log.log_end_offset:
                    money += amount_of(pairs[met[key]][1])
                    met[key] += 1
        yield Audited(version, is_closed, money)
        if version in chosen:
            yield audited(catalog, version)
