"""A service may open as many files as the hard limit allows."""

import resource
from collections.abc import Iterator

import pytest

from sparklog.service.open_files import allow_many_files


def limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


@pytest.fixture(autouse=True)
def few() -> Iterator[int]:
    """A soft limit of this process that is lower than the hard one."""
    before, most = limits()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1, most))
    yield before - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def test_the_soft_limit_becomes_the_hard_one() -> None:
    allow_many_files()
    assert len(set(limits())) == 1


def test_a_limit_that_the_system_does_not_raise_stays(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuses)
        allow_many_files()
    assert limits()[0] == few
