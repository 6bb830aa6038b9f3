"""One cluster for all tests that leave its workers alive."""

from collections.abc import Iterator

import pytest

from tests.cluster.standalone import Standalone, running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A running cluster: a master and two workers."""
    with running(tmp_path_factory.mktemp("cluster")) as found:
        yield found
