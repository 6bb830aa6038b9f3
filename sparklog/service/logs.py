"""Structured logs on standard error: each line is a JSON object."""

import logging
from typing import Any, Final

import orjson

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
