"""A broker's log directory to import from, and a log dir to import into."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.interop.broker_files import checkpoints
from sparklog.interop.exports.export_log import ExportOptions, ExportReport, export_to
from sparklog.interop.imports.import_log import ImportOptions, PartitionReport, import_log_dirs
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import PartitionLog
from sparklog.model import READ_UNCOMMITTED
from sparklog.storage import open_files
from tests.broker_files import write_segment

TRUST = ImportOptions(check=False, flush=False)
NO_PRODUCERS = bytes.fromhex("000148674bc700000000")
"""A producer snapshot without an entry."""


@dataclass(frozen=True)
class Interop:
    """A broker's directory, a log dir, and what one does with them."""

    broker: Path
    log_dir: Path

    @property
    def catalog(self) -> Catalog:
        return Catalog(open_files(str(self.log_dir)))

    def run(self, options: ImportOptions | None = None, *others: Path) -> list[PartitionReport]:
        """Import the broker's directory, and those of others."""
        admin, brokers = AdminClient(str(self.log_dir)), map(str, (self.broker, *others))
        return import_log_dirs(admin, self.catalog, [*brokers], options or ImportOptions())

    def problem(self, options: ImportOptions | None = None) -> str:
        """Why the one partition was refused."""
        (report,) = self.run(options)
        assert report.added is None
        return str(report.problem)

    def offsets(self, topic: str = "t", isolation: str = READ_UNCOMMITTED) -> list[int]:
        """The offsets of all records of partition 0."""
        reader = TopicReader.open(self.catalog, topic)
        log = reader.partition(0)
        slices = reader.slices(0, log.log_start_offset, log.end_offset(isolation))
        blocks = read_slices(
            reader.files, reader.directory, slices, columns=("offset",), isolation=isolation
        )
        return [offset for block in blocks for offset in block.offset.to_pylist()]

    def log(self, topic: str = "t") -> PartitionLog:
        """Partition 0 of a topic."""
        catalog = self.catalog
        return catalog.partition(catalog.topic(topic), 0)

    def partition(self, name: str = "t-0") -> Path:
        """A partition's directory, made."""
        path = self.broker / name
        path.mkdir(exist_ok=True)
        return path


@pytest.fixture
def interop(tmp_path: Path) -> Interop:
    broker = tmp_path / "broker"
    broker.mkdir()
    return Interop(broker, tmp_path / "log")


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A stopped broker's directory with an empty topic `t`."""
    path = tmp_path / "second"
    (path / "t-0").mkdir(parents=True)
    (path / "meta.properties").write_text("version=1\n")
    (path / "t-0" / "partition.metadata").write_bytes(checkpoints.encode_topic_id("A" * 22))
    write_segment(path / "t-0", 0)
    return path


def export(interop: Interop, target: Path, options: ExportOptions | None = None) -> ExportReport:
    """Export to a new directory; return the report of partition 0."""
    return export_to(interop.catalog, str(target), options or ExportOptions())[0]
