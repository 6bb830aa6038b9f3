"""Steps under a lease, in a log dir that another process may be at."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import StorageError
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.maintenance.leases import Leases, new_owner
from sparklog.maintenance.runner import DONE, JobRun, StepReport
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.leases import LEASE_TTL_MS, acquire, release
from sparklog.metadata.log import MetadataLog
from sparklog.storage.local import LocalFiles
from tests.logs import catalog
from tests.maintenance import new_topic

NOW = 1_700_000_000_000


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return new_topic(tmp_path / "log", "t")


def context_of(log_dir: str) -> JobContext:
    return JobContext(Catalog(LocalFiles(log_dir), ManualClock(NOW)), LocalFleet())


def held(log_dir: str) -> dict[str, str]:
    leases = catalog(log_dir).image().leases
    return {name: lease.owner for name, lease in leases.items()}


def topic_id(log_dir: str) -> str:
    return catalog(log_dir).topic("t").topic_id


class TestHeld:
    def test_is_held_while_the_block_runs(self, log_dir: str) -> None:
        with Leases(context_of(log_dir), "me").held("vacuum", "t") as other:
            during = held(log_dir)

        assert other is None
        assert during == {f"vacuum/{topic_id(log_dir)}": "me"}
        assert held(log_dir) == {}

    def test_does_not_count_if_it_was_taken_by_a_clock_far_ahead(self, log_dir: str) -> None:
        name = f"vacuum/{topic_id(log_dir)}"
        acquire(catalog(log_dir).log, name, "killed", NOW + LEASE_TTL_MS)
        with Leases(context_of(log_dir), "me").held("vacuum", "t") as other:
            assert other is not None
        acquire(catalog(log_dir).log, name, "killed", NOW + LEASE_TTL_MS + 1)
        with Leases(context_of(log_dir), "me").held("vacuum", "t") as other:
            assert other is None

    @pytest.mark.parametrize("job", ["build_index", "compact", "merge_segments"])
    def test_jobs_that_rewrite_segments_exclude_each_other(self, log_dir: str, job: str) -> None:
        with Leases(context_of(log_dir), "me").held(job, "t"):
            assert held(log_dir) == {f"rewrite/{topic_id(log_dir)}": "me"}

    def test_what_is_no_topic_has_a_lease_of_its_own_name(self, log_dir: str) -> None:
        with Leases(context_of(log_dir), "me").held("vacuum", "__cluster_metadata"):
            assert held(log_dir) == {"vacuum/__cluster_metadata": "me"}

    def test_is_given_up_when_the_block_fails(self, log_dir: str) -> None:
        with (
            pytest.raises(ZeroDivisionError),
            Leases(context_of(log_dir), "me").held("vacuum", "t"),
        ):
            raise ZeroDivisionError

        assert held(log_dir) == {}

    def test_another_holder_is_told_and_keeps_it(self, log_dir: str) -> None:
        with (
            Leases(context_of(log_dir), "you").held("compact", "t"),
            Leases(context_of(log_dir), "me").held("merge_segments", "t") as other,
        ):
            pass

        assert other is not None
        assert (other.owner, other.expires_ms) == ("you", NOW + LEASE_TTL_MS)
        assert held(log_dir) == {}

    def test_one_that_another_took_over_stays_theirs(self, log_dir: str) -> None:
        context = context_of(log_dir)
        log = context.catalog.log
        with Leases(context, "me").held("vacuum", "t"):
            name = f"vacuum/{topic_id(log_dir)}"
            release(log, name, "me")
            acquire(log, name, "you", NOW)

        assert held(log_dir) == {name: "you"}

    def test_is_renewed_until_the_block_ends(self, log_dir: str) -> None:
        context, renewed = context_of(log_dir), Event()
        clock = context.clock
        assert isinstance(clock, ManualClock)

        class Noting(Leases):
            def _acquired(self, name: str) -> Any:
                lease = super()._acquired(name)
                if lease.expires_ms > NOW + LEASE_TTL_MS:
                    renewed.set()
                return lease

        with Noting(context, "me", renewal_ms=1).held("vacuum", "t"):
            clock.advance(LEASE_TTL_MS - 1)
            assert renewed.wait(60)

        assert held(log_dir) == {}

    def test_does_without_when_the_log_cannot_be_written(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise StorageError("no")

        monkeypatch.setattr(MetadataLog, "commit", fail)
        with Leases(context_of(log_dir), "me").held("vacuum", "t") as other:
            assert held(log_dir) == {}

        assert other is None

    def test_does_without_when_the_log_cannot_be_read(self, log_dir: str) -> None:
        newest = max(Path(log_dir).glob("__cluster_metadata/_delta_log/*.json"))
        newest.write_bytes(newest.read_bytes()[:-9])

        with Leases(context_of(log_dir), "me").held("verify", "t") as other:
            assert other is None

    def test_owners_differ(self) -> None:
        assert new_owner() != new_owner()


class TestRunner:
    def run(self, log_dir: str, *, dry_run: bool = False) -> tuple[int, StepReport]:
        def job(
            context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
        ) -> Iterator[Step]:
            del context, topics, options
            outcome = Outcome(counts={"leases": len(held(log_dir))})
            yield Step(topic="t", rows=[{}], execute=lambda: outcome)

        context, reports = context_of(log_dir), list[StepReport]()
        leases = Leases(context, "me")
        one = JobRun(name="vacuum", job=job, options={}, dry_run=dry_run, leases=leases)
        code = one.run(context, reports.append)
        return code, reports[0]

    def test_does_a_step_under_a_lease(self, log_dir: str) -> None:
        code, report = self.run(log_dir)

        assert (code, report.is_failed) == (DONE, False)
        assert held(log_dir) == {}

    def test_leaves_out_what_somebody_else_is_at(self, log_dir: str) -> None:
        name = f"vacuum/{topic_id(log_dir)}"
        acquire(context_of(log_dir).catalog.log, name, "you", NOW)
        code, report = self.run(log_dir)

        assert code == DONE
        notes = ["held by you until 2023-11-14T22:18:20+00:00"]
        assert report.outcome == Outcome(counts={"skipped": 1}, notes=notes)
        assert held(log_dir) == {name: "you"}

    def test_takes_none_for_a_dry_run(self, log_dir: str) -> None:
        version = (Path(log_dir) / "__cluster_metadata/_delta_log").stat().st_mtime_ns
        self.run(log_dir, dry_run=True)

        after = (Path(log_dir) / "__cluster_metadata/_delta_log").stat().st_mtime_ns
        assert after == version
