"""Maps every error of the library to an HTTP status and Confluent's error_code.

Body: {"error_code": int, "message": str}. A code of five digits is the status times 100 plus a
number (Confluent's Errors.java); a code of three digits is the status itself. The client gets the
error's own message if it is about its request (4xx). A message about the server may name files: it
is logged, and the client gets a general one.
"""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, NamedTuple, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from sparklog.errors import ErrorCode, SparklogError, UnknownTopicError

TOPIC_NOT_FOUND: Final = 40401
PARTITION_NOT_FOUND: Final = 40402
CONSUMER_NOT_FOUND: Final = 40403
OFFSET_NOT_FOUND: Final = 40404
GROUP_NOT_FOUND: Final = 40405
UNAUTHENTICATED: Final = 40101
FORBIDDEN: Final = 40301
BAD_REQUEST: Final = 40002
FORMAT_MISMATCH: Final = 40601
SCHEMA_NEEDED: Final = 42201
INVALID_JSON: Final = 42203
INVALID_PAYLOAD: Final = 42206
INVALID_BATCH: Final = 42208
THROTTLED: Final = 42901
KAFKA_ERROR: Final = 50002
RETRIABLE: Final = 50003
UNAVAILABLE: Final = 50302
OUT_OF_TIME: Final = 50303

METHOD_NOT_ALLOWED: Final = 405
RETRY_AFTER_S: Final = "1"

REQUEST_ID: Final = ContextVar("request_id", default="")
"""The X-Request-Id of the request that is being answered; it is in the log with its errors."""

log = logging.getLogger("sparklog.rest")


class Answer(NamedTuple):
    """The answer to an error. From status 500 on, `message` replaces the error's own message."""

    error_code: int
    message: str = ""


ANSWERS: Final[Mapping[ErrorCode, Answer]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: Answer(KAFKA_ERROR, "the server failed"),
    ErrorCode.OFFSET_OUT_OF_RANGE: Answer(BAD_REQUEST),
    ErrorCode.CORRUPT_MESSAGE: Answer(KAFKA_ERROR, "the log is damaged here"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Answer(TOPIC_NOT_FOUND),
    ErrorCode.REQUEST_TIMED_OUT: Answer(
        RETRIABLE, "the commit may not have happened: send it again, with the same Idempotency-Key"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: Answer(41301),
    ErrorCode.INVALID_TOPIC_EXCEPTION: Answer(BAD_REQUEST),
    ErrorCode.RECORD_LIST_TOO_LARGE: Answer(41301),
    ErrorCode.INVALID_TIMESTAMP: Answer(BAD_REQUEST),
    ErrorCode.UNSUPPORTED_VERSION: Answer(KAFKA_ERROR, "the log dir is of another version"),
    ErrorCode.TOPIC_ALREADY_EXISTS: Answer(BAD_REQUEST),
    ErrorCode.INVALID_PARTITIONS: Answer(BAD_REQUEST),
    ErrorCode.INVALID_CONFIG: Answer(BAD_REQUEST),
    ErrorCode.INVALID_REQUEST: Answer(BAD_REQUEST),
    ErrorCode.POLICY_VIOLATION: Answer(BAD_REQUEST),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Answer(BAD_REQUEST),
    ErrorCode.INVALID_PRODUCER_EPOCH: Answer(BAD_REQUEST),
    ErrorCode.INVALID_TXN_STATE: Answer(BAD_REQUEST),
    ErrorCode.PRODUCER_FENCED: Answer(BAD_REQUEST),
    ErrorCode.KAFKA_STORAGE_ERROR: Answer(UNAVAILABLE, "the storage failed"),
    ErrorCode.LOG_DIR_NOT_FOUND: Answer(
        UNAVAILABLE, "there is no log dir yet: the first topic that is created makes it"
    ),
    ErrorCode.INVALID_GROUP_ID: Answer(BAD_REQUEST),
    ErrorCode.GROUP_ID_NOT_FOUND: Answer(GROUP_NOT_FOUND),
    ErrorCode.NON_EMPTY_GROUP: Answer(BAD_REQUEST),
    ErrorCode.SASL_AUTHENTICATION_FAILED: Answer(UNAUTHENTICATED),
    ErrorCode.FENCED_LEADER_EPOCH: Answer(RETRIABLE, "an import came between: send it again"),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Answer(KAFKA_ERROR, "the log is damaged here"),
    ErrorCode.INVALID_RECORD: Answer(INVALID_PAYLOAD),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Answer(THROTTLED),
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: Answer(BAD_REQUEST),
    ErrorCode.NOT_COORDINATOR: Answer(RETRIABLE, "the group has moved: send it again"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Answer(
        RETRIABLE, "the group is being loaded: send it again"
    ),
}


class ApiError(Exception):
    """An error of the service itself, with its answer: `error_code` is as in the body."""

    def __init__(
        self, error_code: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.error_code // 100 if self.error_code > 999 else self.error_code


def refusal_of(error: SparklogError) -> ApiError:
    """Return the answer for an error of the library; log the error if the status is 500 or more."""
    answer = ANSWERS[error.code]
    if isinstance(error, UnknownTopicError) and "partition" in vars(error):
        answer = Answer(PARTITION_NOT_FOUND)
    elif error.retriable and answer.error_code == KAFKA_ERROR:
        answer = Answer(RETRIABLE, "the commit did not happen: send it again")
    is_passing = answer.error_code in (RETRIABLE, UNAVAILABLE, THROTTLED)
    headers = {"Retry-After": RETRY_AFTER_S} if is_passing else None
    refusal = ApiError(answer.error_code, error.message, headers)
    if refusal.status < 500:
        return refusal
    request_id = REQUEST_ID.get()
    fields = {"request_id": request_id} if request_id else {}
    log.error("%s: %s", type(error).__name__, error.message, extra={"fields": fields})
    offset = vars(error).get("offset")
    where = "" if offset is None else f" (offset {offset})"
    return ApiError(answer.error_code, answer.message + where, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Let the edge answer FastAPI's own refusals, so that all errors have one shape."""
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)


async def _on_invalid_request(_: Request, error: Exception) -> NoReturn:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what the handler is for
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
        for problem in error.errors()[:5]
    ]
    raise ApiError(422, "; ".join(problems)) from error


async def _on_http_error(request: Request, error: Exception) -> NoReturn:
    assert isinstance(error, HTTPException)  # noqa: S101 - what the handler is for
    is_method = error.status_code == METHOD_NOT_ALLOWED
    headers = {"Allow": _methods(request)} if is_method else error.headers
    raise ApiError(error.status_code, error.detail, headers) from error


def _methods(request: Request) -> str:
    """Return the methods that any route allows for the path; one route knows only its own."""
    path, routes = request.scope["path"], request.app.state.routes
    fitting = (route for route in routes if route.path_regex.match(path))
    methods = {method for route in fitting for method in route.methods}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
