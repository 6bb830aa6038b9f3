"""The metadata log is folded by a process of its own, beside the service."""

from pathlib import Path

import pytest

from sparklog.metadata.upkeep.fold import FOLD_EVERY
from tests.logs import catalog
from tests.rest.conftest import client_for, settings_for
from tests.waiting import until
from tests.wire.processes import children, is_alive


@pytest.mark.slow
def test_a_process_folds_and_ends_with_the_service(log_dir: str) -> None:
    others = set(children())
    with client_for(settings_for(log_dir)) as client:
        for _ in range(FOLD_EVERY + 1):
            answer = client.post("/topics/t", json={"records": [{"value": "YQ=="}]})
            assert answer.status_code == 200
        until(lambda: catalog(log_dir).log.image().fold.cover > 0)
        [found] = set(children()) - others
        assert b"sparklog.rest.folding" in Path(f"/proc/{found}/cmdline").read_bytes()
    assert not is_alive(found)
