"""Jobs that write segments, over every kind of storage."""

from functools import partial
from pathlib import Path

import pytest

from sparklog.log.names import LOG_SUFFIX
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.verification.verify import verify
from sparklog.storage import open_files
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from tests.maintenance import outcome_of
from tests.partitions import Partition, batch
from tests.s3 import S3LogDir

CONFIGS = {"index.interval.bytes": "0", "segment.ms": str(2**63 - 1)}
done = partial(outcome_of, configs=CONFIGS)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "local":
        return LocalFiles(str(tmp_path))
    place: S3LogDir = request.getfixturevalue("s3_log_dir")
    return open_files(place.uri, place.options)


class TestJobs:
    def test_index_merge_and_verify_what_there_is(self, files: Files) -> None:
        partition = Partition(files)
        for number in range(3):
            partition.append(batch(number), batch(number), interval=None)

        assert done(build_index, partition, check=False, rebuild=False).counts["built"] == 3
        assert done(merge_segments, partition, seal=False).counts["into"] == 1
        assert done(verify, partition, repair=False, records=True).problems == []
        assert partition.read() == partition.expected()

    def test_put_a_damaged_log_aside(self, files: Files) -> None:
        partition = Partition(files).append(batch(1), batch(2), batch(3))
        path = partition.path(LOG_SUFFIX)
        partition.flip_byte(path, 70)
        outcome = done(verify, partition, repair=True, records=True)

        aside = path.replace("/t-0/", "/quarantine/t-0/")
        assert outcome.notes[1:] == [f"t-0: put aside as {aside}", "t-0: offsets [0, 1) are lost"]
        assert partition.bytes_of(aside) == partition.bytes_of(path)
        assert partition.read() == partition.expected(1)
