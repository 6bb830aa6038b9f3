"""Broker, import, export, another broker: the same records at the same offsets."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from sparklog.admin import AdminClient, NewTopic
from sparklog.interop.export_log import ExportOptions, export_into
from sparklog.interop.import_log import ImportOptions, PartitionReport, import_log_dir
from sparklog.log_reader import TopicReader
from sparklog.log_reader.isolation import READ_COMMITTED, READ_UNCOMMITTED
from sparklog.log_reader.slices import read_slices
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.manifest.catalog import Catalog
from sparklog.storage import open_files
from tests.kafka.broker import Broker, log_end_offsets, running_broker
from tests.kafka.client import Client, Record, read_topic
from tests.kafka.conftest import Written
from tests.kafka.ours import record_columns
from tests.kafka.scenarios import T0, Marker, varied_records

pytestmark = pytest.mark.kafka

OURS = "ours"
"""A topic of several segments that sparklog wrote, its beginning deleted."""
DELETED = 130
TIMES = (0, T0 - 30, T0, T0 + 5, T0 + 77, T0 + 990, T0 + 10**9, T0 + 10**12)

Found = list[tuple[int, Record]]


@dataclass(frozen=True, slots=True)
class Moved:
    """What was read from the second broker, and the log dir in between."""

    catalog: Catalog
    reports: list[PartitionReport]
    served: dict[str, Found]
    ends: dict[str, int]
    times: dict[str, list[int]]
    after: dict[str, Found]


def read(catalog: Catalog, topic: str, isolation: str = READ_COMMITTED) -> Found:
    """What sparklog reads of partition 0."""
    reader = TopicReader.open(catalog, topic)
    slices = reader.slices(0, reader.log_start_offset(0), reader.log_end_offset(0))
    found: Found = []
    for block in read_slices(reader.files, reader.directory, slices, isolation=isolation):
        columns = (block.offset, block.key, block.value, block.timestamp, block.headers)
        for offset, key, value, timestamp, headers in zip(*columns, strict=True):
            pairs = tuple((one["key"], one["value"]) for one in headers.as_py() or ())
            record = Record(key.as_py(), value.as_py(), timestamp.as_py(), pairs)
            found.append((offset.as_py(), record))
    return found


def produce_ours(admin: AdminClient, catalog: Catalog) -> None:
    admin.create_topics([NewTopic(OURS, 1, {"retention.ms": "-1"})])
    for part in range(4):
        plan = plan_write(catalog, OURS, WriteOptions(compression_type="lz4", batch_size=2000))
        writer = TopicWriter(catalog.files, plan, catalog.clock, seed=part)
        writer.write(record_columns(varied_records(100)))
        commit_write(catalog.store(plan.topic), plan, writer.close())
    admin.delete_records({(OURS, 0): DELETED})


def offsets_for_times(broker: Broker, topic: str) -> list[int]:
    """The broker's answers for TIMES; -1 when no record is as new."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
    try:
        asked = [TopicPartition(topic, 0, time) for time in TIMES]
        return [consumer.offsets_for_times([one], timeout=30)[0].offset for one in asked]
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def moved(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    log_dir = str(tmp_path_factory.mktemp("moved") / "log")
    admin, catalog = AdminClient(log_dir), Catalog(open_files(log_dir))
    source = str(written.broker.data_dir)
    topics = [*written.given, "partitioned"]
    reports = import_log_dir(admin, catalog, source, ImportOptions(topics=topics))
    produce_ours(admin, catalog)
    names = [*written.given, OURS]
    with running_broker(tmp_path_factory.mktemp("second") / "node") as second:
        for name in names:
            second.create_topic(name, config={"retention.ms": "-1"})
        second.stop()
        export_into(catalog, str(second.data_dir), ExportOptions(topics=names))
        second.start()
        served = {name: read_topic(second, name) for name in names}
        ends = {name: log_end_offsets(second.bootstrap, name)[0] for name in names}
        times = {name: offsets_for_times(second, name) for name in names}
        for name in names:
            Client(second).send(name, [Record(b"k", b"after", T0)])
        after = {name: read_topic(second, name) for name in names}
        yield Moved(catalog, reports, served, ends, times, after)


class TestImport:
    def test_every_partition_is_taken(self, moved: Moved) -> None:
        assert [report.problem for report in moved.reports] == [None] * len(moved.reports)

    def test_every_record_has_its_offset(self, moved: Moved, written: Written) -> None:
        for name, given in written.given.items():
            pairs = zip(given.offsets, given.entries, strict=True)
            records = [(offset, one) for offset, one in pairs if not isinstance(one, Marker)]
            found = read(moved.catalog, name, READ_UNCOMMITTED)
            if name == "log-append-time":
                found = [(at, replace(one, timestamp=0)) for at, one in found]
                records = [(at, replace(one, timestamp=0)) for at, one in records]
            assert found == records

    def test_read_committed_hides_what_was_aborted(self, moved: Moved) -> None:
        everything = read(moved.catalog, "transactional", READ_UNCOMMITTED)
        visible = read(moved.catalog, "transactional")

        assert [one for one in everything if not 11 <= one[0] <= 20] == visible

    def test_all_partitions_are_there(self, moved: Moved) -> None:
        reader = TopicReader.open(moved.catalog, "partitioned")
        count = sum(reader.log_end_offset(number) for number in range(7))

        assert (reader.topic.num_partitions, count) == (7, 41 * 6)


class TestExport:
    def test_another_broker_serves_every_record(self, moved: Moved) -> None:
        for name, found in moved.served.items():
            assert found == read(moved.catalog, name), name

    def test_a_deleted_beginning_stays_deleted(self, moved: Moved) -> None:
        assert moved.served[OURS][0][0] == DELETED

    def test_the_log_ends_where_it_did(self, moved: Moved) -> None:
        for name, end in moved.ends.items():
            assert end == TopicReader.open(moved.catalog, name).log_end_offset(0)

    def test_times_have_the_same_offsets(self, moved: Moved) -> None:
        for name, found in moved.times.items():
            reader = TopicReader.open(moved.catalog, name)
            end = reader.log_end_offset(0)
            ours = [reader.list_offset(0, time).offset for time in TIMES]
            # librdkafka says the end where Kafka says that there is none.
            theirs = [-1 if offset in (-1, end) else offset for offset in found]
            assert theirs == ours, name

    def test_the_broker_goes_on_writing(self, moved: Moved) -> None:
        for name, found in moved.after.items():
            assert found[:-1] == moved.served[name]
            assert (found[-1][0], found[-1][1].value) == (moved.ends[name], b"after")
