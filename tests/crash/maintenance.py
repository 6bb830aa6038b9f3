"""A job in a process of its own, which may be killed after any of its steps."""

from typing import Any

from sparklog.clock import Clock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import Job, JobContext
from sparklog.maintenance.runner import JobRun
from sparklog.metadata.catalog import Catalog
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import Operation
from tests.crash.producer import Fatal
from tests.tracing import TracingFiles


def run(
    log_dir: str,
    job: Job,
    options: dict[str, Any],
    steps: int | None = None,
    clock: Clock | None = None,
) -> tuple[int, list[Operation]]:
    """Run a job over every topic; return its exit code and its steps. Killed after `steps`."""
    trace = Fatal(steps)
    catalog = Catalog(TracingFiles(LocalFiles(log_dir), trace), clock)
    one = JobRun(name="job", job=job, options=options)
    code = one.run(JobContext(catalog, LocalFleet()), lambda _: None)
    return code, list(trace)
