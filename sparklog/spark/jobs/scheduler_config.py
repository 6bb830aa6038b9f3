"""The scheduler's configuration: a TOML file of dotted keys, as Kafka writes them.

    log.dirs = ["/data/log"]                     the log dirs; --log-dir replaces them
    topics = ["flights", "log-*"]                names or shell patterns; without it all topics
    log.retention.check.interval.ms = 300000     a job's interval; -1: never
    jobs.retention.topics = ["flights"]          a job's own topics; [] is all topics
    jobs.verify.repair = true                    a job's own options, by their long name
    sparklog.metrics.port = 9465                 Prometheus; 0: any free port; -1: none
    sparklog.metrics.host = "127.0.0.1"          the address it listens on
    spark.master = "local[2]"                    any key of Spark's
    storage.AWS_REGION = "eu-central-1"          any storage setting

A key that does not exist is an error that names the nearest one.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from sparklog.errors import InvalidConfigError
from sparklog.maintenance.registry import JOBS, ScheduledJob

NEVER: Final = -1
METRICS_PORT: Final = 9465
_PORT_MAX: Final = 65_535
_INTERVAL_MS_MAX: Final = 100 * 365 * 24 * 3600 * 1000
"""A hundred years: the time of the next run must be one that datetime can hold."""
_FREE_PREFIXES: Final = ("spark.", "storage.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One job's schedule. `topics` are names or patterns; empty is all."""

    job: ScheduledJob
    interval_ms: int
    topics: Sequence[str]
    options: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The job's name, with its topics and the options that differ from their defaults."""
        defaults = self.job.options()
        changed = {name: one for name, one in self.options.items() if one != defaults[name]}
        parts = [*self.topics, *(f"{name}={one}" for name, one in sorted(changed.items()))]
        return f"{self.job.name} ({', '.join(parts)})" if parts else self.job.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """The configuration. `metrics_port` is -1 for none, 0 for any free one."""

    log_dirs: Sequence[str]
    schedules: Sequence[Schedule]
    metrics_port: int
    metrics_host: str
    spark: Mapping[str, str]
    storage: dict[str, str]


def parse(text: str, log_dirs: Sequence[str] = ()) -> SchedulerConfig:
    """Return the configuration of a TOML text; `log_dirs`, when given, replace its log.dirs.

    Raises InvalidConfigError that names the key and the allowed values.
    """
    try:
        given = dict(_flat(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfigError(f"the configuration is no TOML: {error}") from error
    _check_names(given)
    dirs = log_dirs or _texts(given, "log.dirs")
    if not dirs:
        raise InvalidConfigError("log.dirs is missing: it takes a list of log dirs", key="log.dirs")
    return SchedulerConfig(
        log_dirs=dirs,
        schedules=[one for job in JOBS.values() if (one := _schedule(given, job))],
        metrics_port=_integer(given, "sparklog.metrics.port", METRICS_PORT, -1, _PORT_MAX),
        metrics_host=_text(given, "sparklog.metrics.host", "127.0.0.1"),
        spark=_free(given, "spark."),
        storage={
            key.removeprefix("storage."): one for key, one in _free(given, "storage.").items()
        },
    )


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys: TOML reads `a.b = 1` as a table in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def known_keys() -> list[str]:
    """Return every key but those of Spark and of the storage, which are free."""
    keys = ["log.dirs", "topics", "sparklog.metrics.port", "sparklog.metrics.host"]
    for job in JOBS.values():
        keys += [job.interval_key, f"jobs.{job.name}.topics"]
        keys += [f"jobs.{job.name}.{option}" for option in job.options()]
    return sorted(keys)


def _check_names(given: Mapping[str, Any]) -> None:
    keys = known_keys()
    for name in given:
        if name in keys or name.startswith(_FREE_PREFIXES):
            continue
        near = get_close_matches(name, keys, n=1, cutoff=0.5)
        hint = f"the nearest is {near[0]!r}" if near else f"there are {', '.join(keys)}"
        raise InvalidConfigError(f"{name!r} is no key of the scheduler: {hint}", key=name)


def _schedule(given: Mapping[str, Any], job: ScheduledJob) -> Schedule | None:
    """Return a job's schedule, None when it never runs."""
    key = job.interval_key
    interval_ms = _integer(given, key, job.interval_ms, NEVER, _INTERVAL_MS_MAX)
    if interval_ms == 0:
        raise _refused(key, 0, f"milliseconds from 1 to {_INTERVAL_MS_MAX}, or -1 for never")
    if interval_ms == NEVER:
        return None
    options = {
        name: _option(given, f"jobs.{job.name}.{name}", default)
        for name, default in job.options().items()
    }
    own = f"jobs.{job.name}.topics"
    topics = _texts(given, own if own in given else "topics")
    return Schedule(job=job, interval_ms=interval_ms, topics=topics, options=options)


def _option(given: Mapping[str, Any], key: str, default: Any) -> Any:
    value = given.get(key, default)
    if default is not None and type(value) is not type(default):
        raise _refused(key, value, f"a value like {default!r}")
    return value


def _integer(given: Mapping[str, Any], key: str, default: int, low: int, high: int) -> int:
    value = given.get(key, default)
    if type(value) is not int or not low <= value <= high:
        raise _refused(key, value, f"an integer from {low} to {high}")
    return value


def _text(given: Mapping[str, Any], key: str, default: str) -> str:
    value = given.get(key, default)
    if not isinstance(value, str) or not value:
        raise _refused(key, value, "a text")
    return value


def _texts(given: Mapping[str, Any], key: str) -> list[str]:
    value = given.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise _refused(key, value, 'a list of texts, such as ["flights"]')
    return value


def _free(given: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Return the keys of Spark or of the storage, with values as text; booleans in lower case."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
        if key.startswith(prefix)
    }


def _refused(key: str, value: object, allowed: str) -> InvalidConfigError:
    return InvalidConfigError(f"{key}={value!r} is not allowed: it takes {allowed}", key=key)
