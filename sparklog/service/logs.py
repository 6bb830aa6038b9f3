"""Structured logs on standard error: each line is a JSON object."""

import logging
from collections.abc import Hashable
from threading import Lock
from typing import Any, Final

import orjson

from sparklog.clock import Clock

TOLD_MS: Final = 10_000
"""The least time between two lines about the same trouble."""
LOGGERS: Final = ("sparklog", "uvicorn", "asyncio")


class JsonFormatter(logging.Formatter):
    """Formats a record as {"time", "level", "logger", "message"} and the members of `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def set_up_logs(level: str) -> None:
    """Send what sparklog, uvicorn and asyncio log to standard error, as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False


class Seldom:
    """Keeps a trouble that lasts from filling the log: it has a line once in TOLD_MS.

    For any thread. Each trouble is remembered for good, so their number needs a bound.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told_ms: dict[Hashable, int] = {}
        self._telling = Lock()

    def warn(self, trouble: Hashable, log: logging.Logger, message: str, *args: object) -> None:
        """Log a warning, unless the trouble had one less than TOLD_MS ago."""
        now_ms = self._clock.boot_ms()
        with self._telling:
            told_ms = self._told_ms.get(trouble)
            is_due = told_ms is None or now_ms - told_ms >= TOLD_MS
            if is_due:
                self._told_ms[trouble] = now_ms
        if is_due:
            log.warning(message, *args)
