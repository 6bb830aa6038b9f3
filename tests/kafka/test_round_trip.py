"""Broker, import, export, another broker: the same records at the same offsets."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.interop.exports.export_log import ExportOptions, export_into
from sparklog.interop.imports.import_log import ImportOptions, PartitionReport, import_log_dirs
from sparklog.log_reader import TopicReader
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog
from sparklog.model import READ_UNCOMMITTED
from sparklog.storage import open_files
from tests.kafka.broker import log_end_offsets, running_broker
from tests.kafka.client import Client, Found, Record, offsets_for_times, read_topic
from tests.kafka.conftest import Written
from tests.kafka.ours import read_log, record_columns
from tests.kafka.scenarios import T0, Marker, varied_records

pytestmark = pytest.mark.kafka

OURS = "ours"
"""A topic of several segments that sparklog wrote, its beginning deleted."""
DELETED = 130
TIMES = (0, T0 - 30, T0, T0 + 5, T0 + 77, T0 + 990, T0 + 10**9, T0 + 10**12)


@dataclass(frozen=True, slots=True)
class Moved:
    """What was read from the second broker, and the log dir in between."""

    catalog: Catalog
    reports: list[PartitionReport]
    served: dict[str, Found]
    ends: dict[str, int]
    times: dict[str, list[int]]
    after: dict[str, Found]


def produce_ours(admin: AdminClient, catalog: Catalog) -> None:
    admin.create_topics([NewTopic(OURS, 1, {"retention.ms": "-1"})])
    for part in range(4):
        plan = plan_write(catalog, OURS, WriteOptions(compression_type="lz4", batch_size=2000))
        writer = TopicWriter(catalog.files, plan, catalog.clock, seed=part)
        writer.write(record_columns(varied_records(100)))
        commit_write(catalog, plan, writer.close())
    admin.delete_records({(OURS, 0): DELETED})


@pytest.fixture(scope="module")
def moved(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    log_dir = str(tmp_path_factory.mktemp("moved") / "log")
    admin, catalog = AdminClient(log_dir), Catalog(open_files(log_dir))
    source = str(written.broker.data_dir)
    topics = [*written.given, "partitioned"]
    reports = import_log_dirs(admin, catalog, [source], ImportOptions(topics=topics))
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
        times = {name: offsets_for_times(second, name, TIMES) for name in names}
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
            found = read_log(moved.catalog, name, isolation=READ_UNCOMMITTED)
            if name == "log-append-time":
                found = [(at, replace(one, timestamp=0)) for at, one in found]
                records = [(at, replace(one, timestamp=0)) for at, one in records]
            assert found == records

    def test_read_committed_hides_what_was_aborted(self, moved: Moved) -> None:
        everything = read_log(moved.catalog, "transactional", isolation=READ_UNCOMMITTED)
        visible = read_log(moved.catalog, "transactional")

        assert [one for one in everything if not 11 <= one[0] <= 20] == visible

    def test_without_checks_is_the_same(
        self, moved: Moved, written: Written, tmp_path: Path
    ) -> None:
        admin, catalog = AdminClient(tmp_path), Catalog(open_files(str(tmp_path)))
        options = ImportOptions(topics=list(written.given), check=False)
        import_log_dirs(admin, catalog, [str(written.broker.data_dir)], options)

        for name in written.given:
            assert read_log(catalog, name) == read_log(moved.catalog, name)

    def test_all_partitions_are_there(self, moved: Moved) -> None:
        reader = TopicReader.open(moved.catalog, "partitioned")
        count = sum(reader.partition(number).log_end_offset for number in range(7))

        assert (reader.topic.num_partitions, count) == (7, 41 * 6)


class TestExport:
    def test_another_broker_serves_every_record(self, moved: Moved) -> None:
        for name, found in moved.served.items():
            assert found == read_log(moved.catalog, name), name

    def test_a_deleted_beginning_stays_deleted(self, moved: Moved) -> None:
        assert moved.served[OURS][0][0] == DELETED

    def test_the_log_ends_where_it_did(self, moved: Moved) -> None:
        for name, end in moved.ends.items():
            assert end == TopicReader.open(moved.catalog, name).partition(0).log_end_offset

    def test_times_have_the_same_offsets(self, moved: Moved) -> None:
        for name, found in moved.times.items():
            reader = TopicReader.open(moved.catalog, name)
            end = reader.partition(0).log_end_offset
            ours = [reader.list_offset(0, time).offset for time in TIMES]
            # librdkafka says the end where Kafka says that there is none.
            theirs = [-1 if offset in (-1, end) else offset for offset in found]
            assert theirs == ours, name

    def test_the_broker_goes_on_writing(self, moved: Moved) -> None:
        for name, found in moved.after.items():
            assert found[:-1] == moved.served[name]
            assert (found[-1][0], found[-1][1].value) == (moved.ends[name], b"after")
