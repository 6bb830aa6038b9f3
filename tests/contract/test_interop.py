"""Import into an object store, and export out of it: copies where no hard link can be."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.fleet import LocalFleet
from sparklog.interop.exports.export_log import ExportOptions, export_to
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import DONE, JobRun
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.broker_files import TRANSACTIONAL, batch, marker, write_segment
from tests.compat.cases import BROKER
from tests.logs import Row, rows
from tests.s3 import S3LogDir, s3_log_dir, s3_server

__all__ = ["s3_log_dir", "s3_server"]

pytestmark = pytest.mark.s3

TOPICS = ("plain-zstd", "magic1-gzip", "compacted", "transactional")


@pytest.fixture
def catalog(s3_log_dir: S3LogDir) -> Catalog:
    return Catalog(open_files(s3_log_dir.uri, s3_log_dir.options))


def imported(catalog: Catalog, s3: S3LogDir, broker: Path, options: ImportOptions) -> list[int]:
    """Import; how many segments each partition got."""
    reports = import_log_dirs(AdminClient(s3.uri, s3.options), catalog, [str(broker)], options)
    assert {report.problem for report in reports} == {None}
    return [report.segments for report in reports]


def kept(log_dir: str, options: dict[str, str] | None = None) -> dict[str, dict[int, list[Row]]]:
    return {name: rows(log_dir, name, options) for name in TOPICS}


class TestObjectStore:
    @pytest.mark.parametrize("check", [True, False])
    def test_takes_a_brokers_files_and_gives_them_back(
        self, check: bool, catalog: Catalog, s3_log_dir: S3LogDir, tmp_path: Path
    ) -> None:
        options = ImportOptions(topics=TOPICS, check=check)
        assert imported(catalog, s3_log_dir, BROKER, options) == [2, 1, 1, 2]
        done = export_to(catalog, str(tmp_path / "out"), ExportOptions())

        assert {report.exported.linked for report in done} == {0}
        for name in TOPICS:
            for path in (BROKER / f"{name}-0").glob("*.log"):
                assert (
                    tmp_path / "out" / f"{name}-0" / path.name
                ).read_bytes() == path.read_bytes()
        local = str(tmp_path / "log")
        import_log_dirs(AdminClient(local), Catalog(open_files(local)), [str(BROKER)], options)
        assert kept(local) == kept(s3_log_dir.uri, s3_log_dir.options)

    def test_takes_what_came_since_and_is_maintained(
        self, catalog: Catalog, s3_log_dir: S3LogDir, tmp_path: Path
    ) -> None:
        folder = tmp_path / "t-0"
        folder.mkdir()
        newest = write_segment(folder, 0, batch(0, producer=4, attributes=TRANSACTIONAL))
        imported(catalog, s3_log_dir, tmp_path, ImportOptions())
        newest.write_bytes(newest.read_bytes() + marker(2, 4, 1) + batch(3))
        write_segment(folder, 5, batch(5))

        assert imported(catalog, s3_log_dir, tmp_path, ImportOptions()) == [2]
        job = JobRun(name="job", job=merge_segments, options={"seal": False})
        assert job.run(JobContext(catalog, LocalFleet()), lambda _: None) == DONE
        found = rows(s3_log_dir.uri, "t", s3_log_dir.options)[0]
        assert [row.offset for row in found] == [0, 1, 3, 4, 5, 6]
