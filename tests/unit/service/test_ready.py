"""Readiness: whoever asks has an answer soon, whatever the storage does."""

import asyncio
from threading import Event

import pytest

from sparklog.errors import SparklogError, StorageError
from sparklog.service import ready
from sparklog.service.ready import NO_ANSWER, Readiness
from tests.waiting import turns_until


class Storage:
    """A storage that answers when it may, with an error if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.looks = 0
        self.may_answer = Event()
        self._error = error

    def look(self) -> None:
        self.looks += 1
        assert self.may_answer.wait(30)
        if self._error is not None:
            raise self._error

    def readiness(self) -> Readiness:
        return Readiness(self.look, SparklogError.__str__)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer may take as long as a loaded machine needs."""
    monkeypatch.setattr(ready, "WAIT_S", 30)


def asked(storage: Storage) -> str | None:
    storage.may_answer.set()
    return asyncio.run(storage.readiness().problem())


def test_a_log_dir_that_can_be_read_has_no_problem() -> None:
    assert asked(Storage()) is None


def test_an_error_is_told() -> None:
    assert asked(Storage(StorageError("no disk"))) == "no disk"


def test_a_bug_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        asked(Storage(ZeroDivisionError()))


def test_a_storage_that_does_not_answer_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "WAIT_S", 0.01)

    async def scenario() -> None:
        storage = Storage()
        readiness = storage.readiness()
        found = [*await asyncio.gather(readiness.problem(), readiness.problem())]
        found.append(await readiness.problem())
        assert (found, storage.looks) == ([NO_ANSWER] * 3, 1)

        storage.may_answer.set()
        await turns_until(lambda: readiness._looking is None)
        monkeypatch.setattr(ready, "WAIT_S", 30)
        assert (await readiness.problem(), storage.looks) == (None, 2)
        readiness.close()

    asyncio.run(scenario())
