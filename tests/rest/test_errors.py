"""Every error of the library has a status, and its message stays inside where it must."""

import inspect
import logging
from collections.abc import Iterator

import pytest

from sparklog import errors
from sparklog.errors import SparklogError
from sparklog.rest.errors import ANSWERS, refusal_of

PATH = "/var/data/secret"


def classes(root: type[SparklogError] = SparklogError) -> Iterator[type[SparklogError]]:
    yield root
    for child in root.__subclasses__():
        yield from classes(child)


OURS = [one for one in classes() if inspect.getmodule(one) is errors]


class TestMapping:
    def test_has_the_code_of_every_error_and_no_other(self) -> None:
        assert set(ANSWERS) == {kind.code for kind in OURS}

    @pytest.mark.parametrize("kind", OURS)
    def test_gives_every_error_a_status_and_a_code_that_agree(
        self, kind: type[SparklogError]
    ) -> None:
        refusal = refusal_of(kind("a message"))

        assert 400 <= refusal.status < 600
        assert refusal.error_code // 100 == refusal.status

    @pytest.mark.parametrize("kind", OURS)
    def test_keeps_what_is_the_servers_in_the_log(
        self, kind: type[SparklogError], caplog: pytest.LogCaptureFixture
    ) -> None:
        logging.getLogger("sparklog").propagate = True
        refusal = refusal_of(kind(f"no space in {PATH}"))

        is_told = PATH in refusal.message
        is_logged = PATH in caplog.text
        assert (is_told, is_logged) == ((refusal.status < 500), (refusal.status >= 500))

    @pytest.mark.parametrize(
        ("error", "status", "code", "retry"),
        [
            (errors.UnknownTopicError("x", partition=3), 404, 40402, None),
            (errors.UnknownTopicError("x"), 404, 40401, None),
            (errors.TopicExistsError("x"), 400, 40002, None),
            (errors.RecordTooLargeError("x"), 413, 41301, None),
            (errors.CommitConflictError("x"), 500, 50003, "1"),
            (errors.CommitOutcomeUnknownError("x"), 500, 50003, "1"),
            (errors.LateWriterError("x"), 500, 50003, "1"),
            (errors.StorageFullError("x"), 503, 50302, "1"),
            (errors.LogDirError("x"), 503, 50302, "1"),
            (errors.CorruptRecordError("x", file=PATH, offset=9), 500, 50002, None),
        ],
    )
    def test_is_confluents(
        self, error: SparklogError, status: int, code: int, retry: str | None
    ) -> None:
        refusal = refusal_of(error)

        assert (refusal.status, refusal.error_code) == (status, code)
        assert refusal.headers.get("Retry-After") == retry

    def test_outside_of_a_request_logs_no_id(self, caplog: pytest.LogCaptureFixture) -> None:
        logging.getLogger("sparklog").propagate = True
        refusal_of(errors.StorageError("no answer"))

        assert vars(caplog.records[-1])["fields"] == {}

    def test_tells_where_the_log_is_damaged(self) -> None:
        refusal = refusal_of(errors.CorruptRecordError("x", file=PATH, offset=9))

        assert refusal.message == "the log is damaged here (offset 9)"
